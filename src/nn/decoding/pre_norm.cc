// The decoder: the ops' own kernels one after another on plain memory, with a barrier where a thread needs what others
// made. Each thread has the hidden states of all rows and norms them itself, which is cheaper than one barrier more.
#include "nn/decoding/pre_norm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "hone/error.h"
#include "nn/decoding/few_memory.h"
#include "nn/decoding/few_routed.h"
#include "nn/decoding/lines.h"
#include "nn/kv_cache.h"
#include "ops/argmax.h"
#include "ops/cpu/argmax.h"
#include "ops/cpu/finite.h"
#include "ops/cpu/products/decode.h"
#include "ops/cpu/rms_norm.h"
#include "ops/cpu/rope.h"
#include "ops/cpu/routed.h"
#include "ops/finite.h"
#include "ops/kernels.h"
#include "ops/skinny.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

using namespace ops;  // NOLINT: whose kernels these are

// What the threads of a step need to know of it.
struct Step {
  std::span<const std::int32_t> ids;  // one per row
  std::span<const std::int64_t> positions;
  // By layer: cos and sin of all positions up to the highest, whose rows are not looked at; null: none.
  std::span<const RopeTable* const> ropes;
  const std::vector<KvCache::Room>& rooms;  // per layer; the step writes the token's keys and values
};

// The first layer of those that attend; null: none does.
const PreNormLayer* first_attending(const PreNormStack& w) {
  for (const PreNormLayer& layer : w.layers)
    if (!layer.memory) return &layer;
  return nullptr;
}

template <class T>
class PreNormDecoder final : public Decoder {
  using W = cpu::Wide<T>;

  struct Layer {
    const T *attention_norm, *mlp_norm, *attention_out_norm, *mlp_out_norm, *q_norm, *k_norm;
    bool norms_rows;  // q_norm and k_norm are of all heads together
    bool is_gated;    // behind each head's query lies what gates its result
    Line<T> qkv, o;
    at::Tensor sinks_H;                // fp32 (fp64); undefined: none
    std::optional<FewMemory<T>> memory;  // in place of these
    std::optional<GatedPair<T>> gated;   // one of the two: this with `down`, or experts
    Line<T> down;
    std::optional<FewRouted<T>> routed;
    std::int64_t window;
  };
  struct Room {
    RoutedRoom<T> routed;
    MemoryRoom<T> memory;
    std::vector<T> q, k, v, attended, added, inner, upper;  // upper: what goes with inner
  };

 public:
  PreNormDecoder(PreNormStack weights, std::int64_t rows)
      : w_(std::move(weights)),
        most_rows_(rows),
        hidden_(w_.embedding_VD.size(1)),
        groups_(w_.kv_heads),
        heads_(w_.heads / w_.kv_heads),
        vocab_(w_.head.weight_OI.size(0)) {
    make_room();
    logits_ = at::empty({rows, vocab_}, w_.embedding_VD.options());
    if (logits_.scalar_type() != at::kFloat) wide_ = at::empty({rows, vocab_}, at::kFloat);
    layers_.reserve(w_.layers.size());
    for (const PreNormLayer& layer : w_.layers) add_layer(layer);
    head_ = make_.line(w_.head, nullptr, host::mutable_values<T>(logits_).data());
  }

  bool step(std::span<const std::int32_t> ids, KvCache& cache) override {
    const std::span<const std::int64_t> lengths = cache.lengths();
    HONE_ASSERT(ids.size() == lengths.size());
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    if (w_.positions > 0 && longest >= w_.positions) return false;
    for (const std::int64_t length : lengths)
      for (const PreNormLayer& layer : w_.layers)
        if (layer.rope && layer.rope->length_class(length + 1) != 0) return false;
    const std::vector<KvCache::Room>* rooms = cache.room_for_one_each(/*with_memories=*/true);
    if (!rooms) return false;
    ropes_.clear();
    for (const PreNormLayer& layer : w_.layers)
      ropes_.push_back(layer.rope ? &cache.rope_table(*layer.rope, longest + 1, w_.embedding_VD) : nullptr);
    step(Step{ids, lengths, ropes_, *rooms});
    cache.advance_by_one();
    return true;
  }

  std::span<const std::int32_t> likeliest() override { return likeliest_; }
  std::span<float> logits() override {
    if (wide_.defined()) wide_.narrow(0, 0, rows_).copy_(logits_.narrow(0, 0, rows_));
    const at::Tensor& all = wide_.defined() ? wide_ : logits_;
    return host::mutable_values<float>(all).first(static_cast<std::size_t>(rows_ * vocab_));
  }

 private:
  void step(const Step& step) {
    rows_ = std::ssize(step.ids);
    HONE_ASSERT(rows_ <= most_rows_ && step.rooms.size() == layers_.size());
    for (const std::int32_t id : step.ids) HONE_ASSERT(id >= 0 && id < w_.embedding_VD.size(0));
    prepare(step);
    run_team([&](const Member& me) { run(step, me); });
    choose();
  }

  static const T* data(const at::Tensor& x) { return ProductMaker<T>::data(x); }

  // All that layers point to.
  void make_room() {
    const std::int64_t all_heads = groups_ * heads_ * w_.head_size;
    std::int64_t inner = 0;
    for (const PreNormLayer& layer : w_.layers) {
      if (layer.routed)
        room_.routed.fit(*layer.routed, most_rows_, hidden_);
      else
        inner = std::max(inner, layer.mlp.gate.weight_OI.size(0));
      if (layer.memory) room_.memory.fit(*layer.memory, most_rows_);
    }
    const bool gated = first_attending(w_) && first_attending(w_)->is_gated;
    room_.q.resize(most_rows_ * all_heads * (gated ? 2 : 1)), room_.attended.resize(most_rows_ * all_heads);
    room_.k.resize(most_rows_ * groups_ * w_.head_size), room_.v.resize(room_.k.size());
    room_.added.resize(most_rows_ * hidden_);
    room_.inner.resize(most_rows_ * inner), room_.upper.resize(room_.inner.size());
  }

  void add_layer(const PreNormLayer& l) {
    Layer& made = layers_.emplace_back(
        Layer{data(l.attention_norm_D), data(l.mlp_norm_D), data(l.attention_out_norm_D), data(l.mlp_out_norm_D),
              data(l.q_norm), data(l.k_norm), l.q_norm.defined() && l.q_norm.numel() != w_.head_size, l.is_gated,
              {}, {}, {}, {}, {}, {}, {}, l.window});
    if (l.memory) {
      made.memory.emplace(*l.memory, make_, room_.memory, room_.added.data());
    } else {
      make_.add(made.qkv, l.q, nullptr, room_.q.data());
      make_.add(made.qkv, l.k, nullptr, room_.k.data());
      make_.add(made.qkv, l.v, nullptr, room_.v.data());
      made.o = make_.line(l.o, room_.attended.data(), room_.added.data());
      if (l.sinks_H.defined()) made.sinks_H = l.sinks_H.to(c10::CppTypeToScalarType<W>::value).contiguous();
    }
    if (l.routed) {
      made.routed.emplace(*l.routed, make_, room_.routed, hidden_);
    } else {
      made.gated = gated_pair(make_, l.mlp, w_.activation, room_.inner.data(), room_.upper.data());
      made.down = make_.line(l.mlp.down, room_.inner.data(), room_.added.data());
    }
  }

  // All room that the threads will need.
  void prepare(const Step& step) {
    own_.resize(std::max<std::size_t>(own_.size(), team_size()));
    routed_.resize(own_.size()), memories_.resize(own_.size());
    std::int64_t longest = 0, normed = most_rows_ * hidden_, norms = std::max(most_rows_, heads_);
    for (const KvCache::Room& room : step.rooms)
      if (room.k_RGCK.defined()) longest = std::max(longest, room.k_RGCK.size(2));
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (!layers_[l].memory) continue;
      const MemoryForm& form = *w_.layers[l].memory;
      normed = std::max(normed, layers_[l].memory->normed_size(most_rows_));
      norms = std::max({norms, form.heads, most_rows_ * form.norm_groups});
    }
    for (Own<T>& own : own_) {
      own.x.resize(most_rows_ * hidden_), own.normed.resize(normed), own.added.resize(own.x.size());
      own.heads.resize(groups_ * heads_ * w_.head_size);
      own.inv_rms.resize(norms), own.best.assign(most_rows_, {-1, T(0), true});
      own.scores.resize(std::max<std::size_t>(own.scores.size(), std::max(heads_ * longest, w_.head_size)));
      own.inner.resize(most_rows_ * make_.most_rank());
      own.rank_part.resize(most_rows_ * make_.most_outs());
    }
    likeliest_.resize(rows_);
  }

  void run(const Step& step, const Member& me) {
    Own<T>& own = own_[me.number];
    for (std::int64_t r = 0; r < rows_; ++r) {
      T* x = own.x.data() + r * hidden_;
      std::copy_n(data(w_.embedding_VD) + step.ids[r] * hidden_, hidden_, x);
      scale(x, hidden_, w_.embedding_scale);
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      norm(own, added(own, l > 0 ? &layers_[l - 1].mlp_out_norm : nullptr), layers_[l].attention_norm);
      if (layers_[l].memory)
        layers_[l].memory->run(rows_, step.rooms[l], own, memories_[me.number], me);
      else
        attend(l, step, own, me);
      me.wait();
      norm(own, added(own, &layers_[l].attention_out_norm), layers_[l].mlp_norm);
      if (layers_[l].routed)
        layers_[l].routed->run(rows_, room_.added.data(), own, routed_[me.number], me);
      else
        run_mlp(layers_[l], own, me);
      me.wait();
    }
    norm(own, added(own, &layers_.back().mlp_out_norm), data(w_.norm_D));
    scale(own.normed.data(), rows_ * hidden_, w_.hidden_scale);
    multiply(head_, rows_, own, me);
    find_best(own, me);
  }

  void attend(std::size_t l, const Step& step, Own<T>& own, const Member& me) {
    multiply(layers_[l].qkv, rows_, own, me);
    me.wait();
    for (std::int64_t task = me.number; task < rows_ * groups_; task += me.size)
      attend(layers_[l], step, step.rooms[l], step.ropes[l], task, own);
    me.wait();
    multiply(layers_[l].o, rows_, own, me);
  }

  void run_mlp(const Layer& layer, Own<T>& own, const Member& me) const {
    multiply_gated(*layer.gated, rows_, own, me);
    me.wait();
    multiply(layer.down, rows_, own, me);
  }

  static void scale(T* x, std::int64_t count, double by) {
    if (by == 1) return;
    for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<T>(static_cast<W>(x[i]) * static_cast<W>(by));
  }

  void rms_norm(const T* x, const T* residual, const T* weight, std::int64_t rows, std::int64_t cols, T* sum, T* y,
                Own<T>& own) const {
    cpu::rms_norm_kernels<T>().forward(x, residual, {weight, w_.norm.factor}, static_cast<W>(w_.norm.eps), rows, cols,
                                       sum, y, own.inv_rms.data());
  }

  // What attention or MLP have made, as it is added: normed or scaled where that is done. norm null: nothing is.
  const T* added(Own<T>& own, const T* const* norm) const {
    if (!norm) return nullptr;
    if (!*norm && w_.residual_scale == 1) return room_.added.data();
    if (*norm)
      rms_norm(room_.added.data(), nullptr, *norm, rows_, hidden_, nullptr, own.added.data(), own);
    else
      std::copy_n(room_.added.data(), rows_ * hidden_, own.added.data());
    scale(own.added.data(), rows_ * hidden_, w_.residual_scale);
    return own.added.data();
  }

  // x += what is added to it, then its norm.
  void norm(Own<T>& own, const T* added, const T* weight) const {
    if (weight)
      return rms_norm(own.x.data(), added, weight, rows_, hidden_, added ? own.x.data() : nullptr, own.normed.data(),
                      own);
    for (std::int64_t i = 0; added && i < rows_ * hidden_; ++i)
      own.x[i] = static_cast<T>(static_cast<W>(own.x[i]) + static_cast<W>(added[i]));
    std::copy_n(own.x.data(), rows_ * hidden_, own.normed.data());
  }

  // Rotates where that is done: of each head as many values as there are angles for twice.
  void turn(T* x, std::int64_t heads, const RopeTable* rope, const Step& step, std::int64_t row, Own<T>& own) const {
    if (!rope) return;
    const std::int64_t size = w_.head_size, half = rope->cos.size(1);
    const bool whole = 2 * half == size;
    if (!whole) own.positions.assign(heads, step.positions[row]);
    cpu::rope_kernels<T>().rotate({.x = x,
                                   .x_stride = whole ? heads * size : size,
                                   .cos = host::values<W>(rope->cos).data(),
                                   .sin = host::values<W>(rope->sin).data(),
                                   .rows = whole ? &step.positions[row] : own.positions.data(),
                                   .tokens = whole ? 1 : heads,
                                   .heads = whole ? heads : 1,
                                   .half = half,
                                   .y = x,
                                   .y_stride = whole ? heads * size : size});
  }

  // Queries or keys of a row for one key/value head, normed where that is done: in their place, or, where all heads of
  // the row are normed together, which other tasks read, in the thread's own.
  T* normed_heads(T* row, std::int64_t heads, std::int64_t task, const T* norm, bool together, Own<T>& own) const {
    const std::int64_t size = w_.head_size, group = task % groups_;
    T* x = row + group * heads * size;
    if (!norm) return x;
    if (!together) {
      rms_norm(x, nullptr, norm, heads, size, nullptr, x, own);
      return x;
    }
    rms_norm(row, nullptr, norm, 1, groups_ * heads * size, nullptr, own.heads.data(), own);
    return own.heads.data() + group * heads * size;
  }

  // The same of queries. Where gates lie between them they come into the thread's own.
  T* queries(const Layer& layer, std::int64_t task, Own<T>& own) {
    const std::int64_t size = w_.head_size, row = task / groups_;
    if (!layer.is_gated)
      return normed_heads(room_.q.data() + row * groups_ * heads_ * size, heads_, task, layer.q_norm, layer.norms_rows,
                          own);
    for (std::int64_t h = 0; h < heads_; ++h)
      std::copy_n(room_.q.data() + 2 * (task * heads_ + h) * size, size, own.heads.data() + h * size);
    if (layer.q_norm) rms_norm(own.heads.data(), nullptr, layer.q_norm, heads_, size, nullptr, own.heads.data(), own);
    return own.heads.data();
  }

  // What heads give times the sigmoids of their gates.
  void gate(std::int64_t task, Own<T>& own) {
    const std::int64_t size = w_.head_size;
    for (std::int64_t h = task * heads_; h < (task + 1) * heads_; ++h) {
      cpu::routed_kernels<T>().sigmoid(room_.q.data() + (2 * h + 1) * size, size, own.scores.data());
      T* y = room_.attended.data() + h * size;
      for (std::int64_t i = 0; i < size; ++i)
        y[i] = static_cast<T>(static_cast<W>(y[i]) * static_cast<W>(static_cast<T>(own.scores[i])));
    }
  }

  // The query heads of one key/value head of one row: task = row * groups + head.
  void attend(const Layer& layer, const Step& step, const KvCache::Room& room, const RopeTable* rope, std::int64_t task,
              Own<T>& own) {
    const std::int64_t row = task / groups_, size = w_.head_size, held = room.held[row],
                       at = task * room.k_RGCK.size(2) * size;
    T* k = normed_heads(room_.k.data() + row * groups_ * size, 1, task, layer.k_norm, layer.norms_rows, own);
    turn(k, 1, rope, step, row, own);
    T* keys = host::mutable_values<T>(room.k_RGCK).data() + at;
    T* values = host::mutable_values<T>(room.v_RGCK).data() + at;
    std::copy_n(k, size, keys + held * size);  // before q takes the thread's room
    std::copy_n(room_.v.data() + task * size, size, values + held * size);
    T* q = queries(layer, task, own);
    turn(q, heads_, rope, step, row, own);
    const std::int64_t length = held + 1,
                       first = layer.window > 0 ? std::max<std::int64_t>(0, length - layer.window) : 0;
    const W* sinks = layer.sinks_H.defined() ? host::values<W>(layer.sinks_H).data() : nullptr;
    cpu::decode_kernels<T>().attend({.q = q,
                                     .k = keys + first * size,
                                     .v = values + first * size,
                                     .heads = heads_,
                                     .length = length - first,
                                     .size = size,
                                     .scale = static_cast<W>(w_.scale),
                                     .room = own.scores.data(),
                                     .y = room_.attended.data() + task * heads_ * size,
                                     .sinks = sinks ? sinks + task % groups_ * heads_ : nullptr});
    if (layer.is_gated) gate(task, own);
  }

  void find_best(Own<T>& own, const Member& me) const {
    const Product<T>& head = head_.products[0];
    const std::int64_t blocks = blocks_of(head), begin = std::min(vocab_, me.begin(blocks) * kSkinnyBlock),
                       end = std::min(vocab_, me.end(blocks) * kSkinnyBlock);
    for (std::int64_t r = 0; begin < end && r < rows_; ++r) {
      const T* row = head.y + r * vocab_;
      const std::int64_t id = begin + cpu::argmax_kernels<T>().find(row + begin, end - begin);
      own.best[r] = {id, row[id], cpu::finite_kernels<T>().all_finite(row + begin, end - begin)};
    }
  }

  // Of all threads: the first of equal ones, and what is not a number is passed over, as in argmax().
  void choose() {
    if constexpr (std::is_same_v<T, double>) return choose_as_fp32();
    for (std::int64_t r = 0; r < rows_; ++r) {
      std::int64_t id = 0;
      W most = -std::numeric_limits<W>::infinity();
      for (std::size_t i = own_.size(); i-- > 0;) {
        const auto& best = own_[i].best[r];
        if (best.id >= 0 && static_cast<W>(best.logit) >= most) id = best.id, most = static_cast<W>(best.logit);
      }
      const bool finite = std::all_of(own_.begin(), own_.end(), [&](const Own<T>& own) { return own.best[r].finite; });
      likeliest_[r] = finite ? static_cast<std::int32_t>(id) : -1;
    }
  }

  // Rounding to fp32 can make two fp64 logits equal.
  void choose_as_fp32() {
    const std::span<const float> all = logits();
    for (std::int64_t r = 0; r < rows_; ++r) {
      const auto row = all.subspan(r * vocab_, vocab_);
      likeliest_[r] = all_finite(row) ? static_cast<std::int32_t>(argmax(row)) : -1;
    }
  }

  const PreNormStack w_;
  const std::int64_t most_rows_, hidden_, groups_, heads_, vocab_;  // heads: of a group
  std::int64_t rows_ = 0;
  ProductMaker<T> make_;
  Room room_;  // shared by the threads
  std::vector<Layer> layers_;
  Line<T> head_;
  std::vector<const RopeTable*> ropes_;  // of the step, by layer
  at::Tensor logits_, wide_;             // [R,V]; wide: in fp32, undefined where logits are
  std::vector<Own<T>> own_;
  std::vector<RoutedOwn<T>> routed_;  // of the threads likewise
  std::vector<MemoryOwn<T>> memories_;
  std::vector<std::int32_t> likeliest_;
};

// Every tensor that the weights name and kernels read.
class Tensors {
 public:
  void add(const at::Tensor& x) {
    if (x.defined()) all_.push_back(x);
  }
  void add(const LinearWeight& linear) {
    add(linear.weight_OI), add(linear.bias_O);
    for (const LowRank& low : linear.low_ranks) add(low.a_RI), add(low.b_OR);
  }
  void add(const GatedMlpWeights& mlp) { add(mlp.gate), add(mlp.up), add(mlp.down); }
  void add(const RoutedForm& f) {
    add(f.router), add(f.grouped_router_ED), add(f.shared_gate);
    for (const GatedMlpWeights& expert : f.experts) add(expert);
    if (f.shared) add(*f.shared);
    if (!f.stacked) return;
    for (const at::Tensor* x : {&f.stacked->gate_up_EDJ, &f.stacked->gate_up_bias_EJ, &f.stacked->down_EID,
                                &f.stacked->down_bias_ED})
      add(*x);
  }
  void add(const MemoryForm& f) {
    for (const LinearWeight& linear : f.in) add(linear);
    add(f.out), add(f.norm);
  }
  void add(const PreNormLayer& l) {
    for (const at::Tensor* x : {&l.attention_norm_D, &l.mlp_norm_D, &l.attention_out_norm_D, &l.mlp_out_norm_D,
                                &l.q_norm, &l.k_norm})
      add(*x);
    if (l.memory)
      add(*l.memory);
    else
      add(l.q), add(l.k), add(l.v), add(l.o);
    l.routed ? add(*l.routed) : add(l.mlp);
  }
  const std::vector<at::Tensor>& all() const { return all_; }

 private:
  std::vector<at::Tensor> all_;
};

bool takes(const PreNormStack& stack) {
  Tensors tensors;
  tensors.add(stack.embedding_VD), tensors.add(stack.norm_D), tensors.add(stack.head);
  for (const PreNormLayer& layer : stack.layers) {
    if (!layer.is_known) return false;
    tensors.add(layer);
  }
  return !stack.layers.empty() && std::all_of(tensors.all().begin(), tensors.all().end(), [&](const at::Tensor& x) {
    return kernels_take({x, stack.embedding_VD}) && x.is_contiguous() && x.numel() > 0;
  });
}

}  // namespace

std::unique_ptr<Decoder> make_pre_norm_decoder(PreNormStack stack, std::int64_t rows) {
  std::unique_ptr<Decoder> made;
  if (rows <= kSkinnyRows && takes(stack))
    cpu::with_type(stack.embedding_VD.scalar_type(),
                   [&]<class T>(T) { made = std::make_unique<PreNormDecoder<T>>(std::move(stack), rows); });
  return made;
}

}  // namespace hone::nn
