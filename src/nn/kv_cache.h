// What the tokens so far left, for generation: keys and values, or memories. Each row keeps its own length, so that
// nothing is padded.
//
// Letters: G key/value heads, C capacity, K head size, N tokens of one pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "hone/model.h"
#include "nn/past.h"
#include "nn/rope.h"
#include "ops/attention.h"
#include "ops/primitives.h"
#include "ops/rope.h"

namespace hone::nn {

struct PlannedDoc;

// Of so many rows with so many tokens each, at least: a cache doubles where it has to grow. type: of the weights.
std::int64_t cache_bytes(const CacheSpec& spec, at::ScalarType type, std::int64_t rows, std::int64_t tokens);

// Not thread-safe. Holds no graph: use it under no-grad (Model::forward refuses otherwise).
class HONE_API KvCache final : public Past {
 public:
  KvCache(CacheSpec spec, std::int64_t rows);

  std::int64_t rows() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t length(std::int64_t row) const override { return lengths_[row]; }
  std::int64_t bytes() const;

  // Goes on with these rows only, in this order (numbers may repeat: a row is then copied). sources_stay: each comes to
  // where a row of the same source was.
  void keep(const std::vector<std::int64_t>& rows, bool sources_stay = false);
  // Goes on without this row, in whose place the last one comes.
  void drop(std::int64_t row);
  // Puts the rows of another cache of the same model, which has been through a pass as this one has, behind these.
  void add_rows(KvCache&& others);

  // What the row's first `length` tokens left, for a text of `whole` tokens that begins with them: a cache of its own,
  // with as much memory as they need. null: it is not there any longer, as a memory or a window has gone on, or such a
  // text's tokens are rotated by other angles.
  std::unique_ptr<KvCache> beginning_of(std::int64_t row, std::int64_t length, std::int64_t whole) const;
  bool has_beginning_of(std::int64_t row, std::int64_t length, std::int64_t whole) const;
  // The rows of caches that beginning_of() has made, one at least, in a cache with room for so many tokens of each row.
  static std::unique_ptr<KvCache> joined(std::vector<std::unique_ptr<KvCache>> parts, std::int64_t more);

  // Adds the pass's keys and values to layer `layer` and attends. Called by nn::attend.
  // REQUIRES: options.mask is causal, with the layer's window. v_NGK undefined: keys are values, too, and kept once.
  // rope: by which q and k are yet to be rotated; null: they are.
  Tensor attend(std::int64_t layer, const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const Plan& plan,
                const ops::AttentionOptions& options, const ops::RopeTable* rope = nullptr);
  // The same in chunks of so many places (nn/chunked_documents.h), in a layer without a window.
  Tensor attend_in_chunks(std::int64_t layer, const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK,
                          const Plan& plan, const ops::AttentionOptions& options, std::int64_t chunk);
  // Whether the cache holds nothing yet of what the plan's documents begin with.
  static bool is_fresh(const Plan& plan);
  // Adds keys that are values, too, of a fresh pass that attends by itself.
  void take_in(std::int64_t layer, const Tensor& k_NGK, const Plan& plan);
  // Attends to what layer `layer` has: in this pass it has attended by attend(), with these keys and values, rotated.
  Tensor attend_again(std::int64_t layer, const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK,
                      const Plan& plan, const ops::AttentionOptions& options);
  // Keys and values that layer `layer` made of the rows' sources, of which each row has one: for all passes to come.
  // `lengths`: of the sources, row after row. Called by nn::attend_to_sources.
  void take_in_sources(std::int64_t layer, const Tensor& k_SGK, const Tensor& v_SGK,
                       const std::vector<std::int64_t>& lengths);
  // One token of each row to all keys of its source.
  Tensor attend_to_sources(std::int64_t layer, const Tensor& q_RHK, const ops::AttentionOptions& options);
  // A matrix memory of layer `layer` takes in the pass's tokens. Called by nn::mlstm.
  Tensor mlstm(std::int64_t layer, const ops::MlstmInput& input, const Plan& plan, double eps);
  // The same of nn::gated_delta, nn::ssd, nn::selective_scan and nn::ShortConvolution.
  Tensor gated_delta(std::int64_t layer, const ops::DeltaInput& input, const Plan& plan);
  Tensor ssd(std::int64_t layer, const ops::SsdInput& input, const Plan& plan);
  Tensor selective_scan(std::int64_t layer, const ops::ScanInput& input, const Plan& plan);
  Tensor short_conv(std::int64_t layer, const Tensor& x_NC, const ops::ShortConvWeights& weights, const Plan& plan);
  // Before a pass looks its tokens up in a table. That is a kernel of LibTorch's, which begins when all that the device
  // was given before has ended: what was changed until now is settled (ops::CacheRoom) for the pass's attention. What
  // is changed after this is not, but for the newest entries: who changes anything says so. Called by Model::forward.
  void begin_pass() { is_settled_ = true; }
  // After the last layer: the pass's tokens now belong to the past. Called by Model::forward.
  void advance(const Plan& plan);

  // For one token of each row (nn/decoding): makes room for it in each layer, behind what the row holds; null before
  // the first pass, and where a layer has a memory, unless the caller takes memories on himself, which are then there
  // (but mLSTM's). A layer that has neither has no room. Good until the next call of anything here.
  struct Room {
    Tensor k_RGCK, v_RGCK;
    std::vector<std::int64_t> held;  // per row
    Tensor matrix_RHKV, newest_RTC;  // of memories
  };
  const std::vector<Room>* room_for_one_each(bool with_memories = false);
  // From the next pass on advance() leaves what lies on the device to the caller, who makes each of these one more.
  void leave_counts(bool left) { counts_are_left_ = left; }
  std::vector<Tensor> left_counts() const;
  // After a pass that went by without advance(): of who stored keys and values by himself; of a device that was given a
  // pass again, which did what advance() does there.
  void advance_by_one();
  void advance_as_recorded();
  void go_back_to(const std::vector<std::int64_t>& lengths);  // of a pass that was counted, but not done
  // Whether one token more of each row has room where everything lies now.
  bool has_room_for_one_each() const;
  void count_again();  // of passes that a device has counted, but nobody wants
  std::span<const std::int64_t> lengths() const { return lengths_; }
  // While this number is the same, a pass of one token of each row finds everything where it was in the last one.
  std::int64_t generation() const { return generation_; }
  // Whether the next such pass needs no other rotary angles than those that are there.
  bool angles_reach() const;
  at::Tensor positions_R(at::Device device) override { return held_R(0, device); }

  const ops::RopeTable& rope_table(const Rope& rope, std::int64_t end, const Tensor& like) override;
  void note_other_angles() override { has_other_angles_ = true; }

 private:
  struct Slot {
    Tensor k_RGCK, v_RGCK;              // v undefined: it is k
    ops::MlstmMemory memory;            // instead of them
    Tensor matrix_RHKV, newest_RTC;     // instead of them: a memory (of channels: [R,K,C]), and what a convolution has
                                        // yet to read
    Tensor source_k_RGCK, source_v_RGCK;  // of sources, padded
    std::vector<std::int64_t> dropped;  // per row: oldest tokens that a window no longer needs
    std::vector<Tensor> roomy;          // those of tensors() with room for more rows behind theirs; none: there is none
    std::vector<Tensor*> tensors();  // those that are there
    std::vector<Tensor*> entries();  // likewise, of keys and values
    std::vector<Tensor*> of_sources();  // likewise, of those of sources
    const Tensor& values() const { return v_RGCK.defined() ? v_RGCK : k_RGCK; }
  };
  void begin_change_of_rows();
  void put_behind(Slot& slot, Slot& other) const;
  bool still_has(std::size_t layer, std::int64_t row, std::int64_t length) const;
  static Slot joined(std::vector<Slot>& slots, std::int64_t more);  // each of one row
  bool keeps_nothing(std::size_t layer) const {  // as it uses what another one has
    return spec_.layers[layer].kv_heads == 0 && !remembers(layer);
  }
  bool remembers(std::size_t layer) const {  // instead of keys and values, or beside them
    const MemoryLayer& memory = spec_.layers[layer].memory;
    return memory.heads > 0 || memory.convolved > 0;
  }
  Tensor& matrix_of(std::int64_t layer, const Tensor& wide);
  std::int64_t held(const Slot& slot, std::int64_t row) const { return lengths_[row] - slot.dropped[row]; }
  std::int64_t taken(const PlannedDoc& doc, std::int64_t window, bool fresh) const;
  void reserve(Slot& slot, std::int64_t window, const Plan& plan, const Tensor& k_NGK, bool with_values, bool fresh);
  std::int64_t needed(Slot& slot, std::int64_t window, std::int64_t row, std::int64_t more);
  void grow(Slot& slot, std::int64_t window, std::int64_t needed);
  void drop_oldest(Slot& slot, std::int64_t row, std::int64_t left);
  void append(Slot& slot, std::int64_t window, const Tensor& k_NGK, const Tensor& v_NGK, const Plan& plan, bool fresh);
  Tensor attend_each(const Slot& slot, const Tensor& q_NHK, const Plan& plan,
                     const ops::AttentionOptions& options) const;
  const Tensor& held_R(std::int64_t window, at::Device device);
  bool is_settled(const ops::RopeTable& rope) const;
  void refresh_held();
  Tensor counted(std::int64_t window) const;
  CacheSpec spec_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> lengths_, source_lengths_;  // of rows; the latter empty: there are no sources
  Tensor last_source_R_;  // int64, on the device: each source's last token
  std::map<const Rope*, ops::RopeTable> rope_tables_;
  std::vector<Room> rooms_;  // of room_for_one_each
  // What rows hold in layers of one window, on the device, where passes of one token of each row move it on; stale: the
  // host knows better.
  std::map<std::int64_t, Tensor> held_R_;
  bool stale_ = true, counts_are_left_ = false, has_other_angles_ = false;
  std::int64_t generation_ = 0;
  // Since the pass began the device was given nothing that changes entries, but newest ones, what rows hold or angles.
  bool is_settled_ = false;
};

}  // namespace hone::nn
