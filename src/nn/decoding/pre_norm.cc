// The decoder: the ops' own kernels one after another on plain memory, with a barrier where a thread needs what others
// made. Each thread has the hidden states of all rows and norms them itself, which is cheaper than one barrier more.
#include "nn/decoding/pre_norm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "hone/error.h"
#include "nn/decoding/few_latent.h"
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

// Whether the layer has attention of heads.
bool attends(const PreNormLayer& l) { return l.has_mixer && !l.latent && (!l.memory || l.is_beside); }

// The first layer of those that do; null: none does.
const PreNormLayer* first_attending(const PreNormStack& w) {
  const auto found = std::ranges::find_if(w.layers, attends);
  return found == w.layers.end() ? nullptr : &*found;
}

template <class T>
class PreNormDecoder final : public Decoder {
  using W = cpu::Wide<T>;

  // How what was made is added to the hidden states.
  struct Sum {
    const T* norm;        // of it; null: none
    double scale = 1;     // what it is multiplied with first, and what lies beside it, which is added to it
    bool is_two = false;  // there is such
    double beside_scale = 1;
  };
  struct Layer {
    const T *attention_norm, *mlp_norm, *q_norm, *k_norm;
    Sum mixed, made;  // what attention or a memory gives, and the MLP
    bool norms_rows;  // q_norm and k_norm are of all heads together
    bool is_gated;    // behind each head's query lies what gates its result
    bool has_head_gates;
    PreNormLayer::Scales scales;
    Line<T> qkv, o;
    at::Tensor sinks_H;                  // fp32 (fp64); undefined: none
    std::optional<FewLatent<T>> latent;  // in place of these
    std::optional<FewMemory<T>> memory;  // in place of these, or beside them
    std::optional<GatedPair<T>> gated;   // one of the two: this with `down`, or experts
    Line<T> down;
    std::optional<FewRouted<T>> routed;
    std::int64_t window;
  };
  struct Room {
    RoutedRoom<T> routed;
    MemoryRoom<T> memory;
    LatentRoom<T> latent;
    // gates: of heads; beside: what is added to `added`; upper: what goes with inner.
    std::vector<T> q, k, v, gates, attended, added, beside, inner, upper;
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
    bool beside = false;
    for (const PreNormLayer& layer : w_.layers) {
      beside |= layer.is_beside;
      if (layer.has_mlp && layer.routed) room_.routed.fit(*layer.routed, most_rows_, hidden_);
      if (layer.has_mlp && !layer.routed) inner = std::max(inner, layer.mlp.gate.weight_OI.size(0));
      if (layer.memory) room_.memory.fit(*layer.memory, most_rows_);
      if (layer.latent) room_.latent.fit(*layer.latent, most_rows_);
    }
    const bool gated = first_attending(w_) && first_attending(w_)->is_gated;
    room_.q.resize(most_rows_ * all_heads * (gated ? 2 : 1)), room_.attended.resize(most_rows_ * all_heads);
    room_.k.resize(most_rows_ * groups_ * w_.head_size), room_.v.resize(room_.k.size());
    room_.gates.resize(most_rows_ * groups_ * heads_);
    room_.added.resize(most_rows_ * hidden_), room_.beside.resize(beside ? room_.added.size() : 0);
    room_.inner.resize(most_rows_ * inner), room_.upper.resize(room_.inner.size());
  }

  void add_layer(const PreNormLayer& l) {
    Layer& made = layers_.emplace_back(
        Layer{data(l.attention_norm_D), data(l.mlp_norm_D), data(l.q_norm), data(l.k_norm),
              {data(l.attention_out_norm_D)}, {data(l.mlp_out_norm_D), l.scales.mlp_out},
              l.q_norm.defined() && l.q_norm.numel() != w_.head_size, l.is_gated, l.head_gate.weight_OI.defined(),
              l.scales, {}, {}, {}, {}, {}, {}, {}, {}, l.window});
    if (l.is_beside) made.mixed = {made.mixed.norm, l.scales.memory_out, true, l.scales.attention_out};
    if (l.latent) made.latent.emplace(*l.latent, make_, room_.latent, room_.added.data());
    if (l.memory) made.memory.emplace(*l.memory, make_, room_.memory, room_.added.data());
    if (attends(l)) add_attention(l, made);
    if (l.has_mlp) add_mlp(l, made);
  }

  void add_attention(const PreNormLayer& l, Layer& made) {
    make_.add(made.qkv, l.q, nullptr, room_.q.data());
    make_.add(made.qkv, l.k, nullptr, room_.k.data());
    make_.add(made.qkv, l.v, nullptr, room_.v.data());
    if (made.has_head_gates) make_.add(made.qkv, l.head_gate, nullptr, room_.gates.data());
    made.o = make_.line(l.o, room_.attended.data(), l.is_beside ? room_.beside.data() : room_.added.data());
    if (l.sinks_H.defined()) made.sinks_H = l.sinks_H.to(c10::CppTypeToScalarType<W>::value).contiguous();
  }

  void add_mlp(const PreNormLayer& l, Layer& made) {
    if (l.routed) {
      made.routed.emplace(*l.routed, make_, room_.routed, hidden_, room_.added.data());
      return;
    }
    made.gated = gated_pair(make_, l.mlp, w_.activation, room_.inner.data(), room_.upper.data(), l.scales.gate);
    made.down = make_.line(l.mlp.down, room_.inner.data(), room_.added.data());
  }

  // All room that the threads will need.
  void prepare(const Step& step) {
    own_.resize(std::max<std::size_t>(own_.size(), team_size()));
    routed_.resize(own_.size()), memories_.resize(own_.size()), latents_.resize(own_.size());
    std::int64_t longest = 0, normed = most_rows_ * hidden_, norms = std::max(most_rows_, heads_);
    for (const KvCache::Room& room : step.rooms)
      if (room.k_RGCK.defined()) longest = std::max(longest, room.k_RGCK.size(2));
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (layers_[l].latent) normed = std::max(normed, layers_[l].latent->normed_size(most_rows_));
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
    const Sum* sum = nullptr;  // what is yet to be added
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (w_.layers[l].has_mixer) {
        norm(own, added(own, sum), layers_[l].attention_norm);
        mix(l, step, own, me);
        me.wait();
        sum = &layers_[l].mixed;
      }
      if (!w_.layers[l].has_mlp) continue;
      norm(own, added(own, sum), layers_[l].mlp_norm);
      if (layers_[l].routed)
        layers_[l].routed->run(rows_, own, routed_[me.number], me);
      else
        run_mlp(layers_[l], own, me);
      me.wait();
      sum = &layers_[l].made;
    }
    norm(own, added(own, sum), data(w_.norm_D));
    scale(own.normed.data(), rows_ * hidden_, w_.hidden_scale);
    multiply(head_, rows_, own, me);
    find_best(own, me);
  }

  void mix(std::size_t l, const Step& step, Own<T>& own, const Member& me) {
    const Layer& layer = layers_[l];
    if (layer.latent)
      return layer.latent->run(step.positions, step.rooms[l], *step.ropes[l], own, latents_[me.number], me);
    if (layer.memory && layer.mixed.is_two) return mix_both(l, step, own, me);
    if (!layer.memory) return attend(l, step, own, me);
    MemoryOwn<T>& mine = memories_[me.number];
    layer.memory->begin(rows_, step.rooms[l], own, mine, me);
    me.wait();
    layer.memory->go_on(rows_, step.rooms[l], own, mine, me);
    me.wait();
    layer.memory->end(rows_, own, me);
  }

  // A memory and attention side by side. own.added has what both read while the first does.
  void mix_both(std::size_t l, const Step& step, Own<T>& own, const Member& me) {
    const Layer& layer = layers_[l];
    MemoryOwn<T>& mine = memories_[me.number];
    const std::int64_t size = rows_ * hidden_;
    std::copy_n(own.normed.data(), size, own.added.data());
    scale(own.normed.data(), size, layer.scales.memory_in);
    layer.memory->begin(rows_, step.rooms[l], own, mine, me);
    std::copy_n(own.added.data(), size, own.normed.data());
    scale(own.normed.data(), size, layer.scales.attention_in);
    multiply(layer.qkv, rows_, own, me);
    me.wait();
    layer.memory->go_on(rows_, step.rooms[l], own, mine, me);
    attend_all(l, step, own, me);
    me.wait();
    layer.memory->end(rows_, own, me);
    multiply(layer.o, rows_, own, me);
  }

  void attend(std::size_t l, const Step& step, Own<T>& own, const Member& me) {
    multiply(layers_[l].qkv, rows_, own, me);
    me.wait();
    attend_all(l, step, own, me);
    me.wait();
    multiply(layers_[l].o, rows_, own, me);
  }

  // Rows' key/value heads, of which the thread has its own.
  void attend_all(std::size_t l, const Step& step, Own<T>& own, const Member& me) {
    for (std::int64_t task = me.number; task < rows_ * groups_; task += me.size)
      attend(layers_[l], step, step.rooms[l], step.ropes[l], task, own);
  }

  void run_mlp(const Layer& layer, Own<T>& own, const Member& me) const {
    multiply_gated(*layer.gated, rows_, own, me);
    me.wait();
    multiply(layer.down, rows_, own, me);
  }

  static void scale(T* x, std::int64_t count, double by) {
    if (by == 1) return;
    for (std::int64_t i = 0; i < count; ++i) x[i] = scaled(x[i], by);
  }
  static T scaled(T x, double by) { return by == 1 ? x : static_cast<T>(static_cast<W>(x) * static_cast<W>(by)); }

  void rms_norm(const T* x, const T* residual, const T* weight, std::int64_t rows, std::int64_t cols, T* sum, T* y,
                Own<T>& own) const {
    cpu::rms_norm_kernels<T>().forward(x, residual, {weight, w_.norm.factor}, static_cast<W>(w_.norm.eps), rows, cols,
                                       sum, y, own.inv_rms.data());
  }

  // What attention, memory or MLP have made, as it is added: normed or scaled where that is done. null: nothing is.
  const T* added(Own<T>& own, const Sum* sum) const {
    if (!sum) return nullptr;
    if (!sum->norm && !sum->is_two && sum->scale == 1 && w_.residual_scale == 1) return room_.added.data();
    const std::int64_t size = rows_ * hidden_;
    std::copy_n(room_.added.data(), size, own.added.data());
    scale(own.added.data(), size, sum->scale);
    for (std::int64_t i = 0; sum->is_two && i < size; ++i) {
      const T beside = scaled(room_.beside[i], sum->beside_scale);
      own.added[i] = static_cast<T>(static_cast<W>(own.added[i]) + static_cast<W>(beside));
    }
    if (sum->norm) rms_norm(own.added.data(), nullptr, sum->norm, rows_, hidden_, nullptr, own.added.data(), own);
    scale(own.added.data(), size, w_.residual_scale);
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

  // What heads give times the sigmoids of their gates: of each value, or of the head.
  void gate(const Layer& layer, std::int64_t task, Own<T>& own) {
    const std::int64_t size = w_.head_size, count = layer.is_gated ? size : 1;
    for (std::int64_t h = task * heads_; h < (task + 1) * heads_; ++h) {
      cpu::routed_kernels<T>().sigmoid(layer.is_gated ? room_.q.data() + (2 * h + 1) * size : room_.gates.data() + h,
                                       count, own.scores.data());
      T* y = room_.attended.data() + h * size;
      for (std::int64_t i = 0; i < size; ++i)
        y[i] = static_cast<T>(static_cast<W>(y[i]) * static_cast<W>(static_cast<T>(own.scores[count > 1 ? i : 0])));
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
    if (layer.is_gated || layer.has_head_gates) gate(layer, task, own);
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
  std::vector<LatentOwn<T>> latents_;
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
    add(f.router), add(f.grouped_router_ED), add(f.shared_gate), add(f.to_latent), add(f.from_latent);
    for (const GatedMlpWeights& expert : f.experts) add(expert);
    if (f.shared) add(*f.shared);
    if (!f.stacked) return;
    for (const at::Tensor* x : {&f.stacked->gate_up_EDJ, &f.stacked->gate_up_bias_EJ, &f.stacked->down_EID,
                                &f.stacked->down_bias_ED})
      add(*x);
  }
  void add(const MemoryForm& f) {
    for (const LinearWeight& linear : f.in) add(linear);
    add(f.out), add(f.norm), add(f.selection), add(f.to_steps);
    for (const at::Tensor* x : {&f.step_norm, &f.write_norm, &f.read_norm}) add(*x);
  }
  void add(const LatentForm& f) {
    for (const LinearWeight* linear : {&f.q_down, &f.q, &f.out, &f.kv_down}) add(*linear);
    for (const at::Tensor* x : {&f.q_norm, &f.kv_norm, &f.expand_HXL}) add(*x);
  }
  void add(const PreNormLayer& l) {
    for (const at::Tensor* x : {&l.attention_norm_D, &l.mlp_norm_D, &l.attention_out_norm_D, &l.mlp_out_norm_D,
                                &l.q_norm, &l.k_norm})
      add(*x);
    if (l.memory) add(*l.memory);
    if (l.latent) add(*l.latent);
    if (attends(l)) add(l.q), add(l.k), add(l.v), add(l.o), add(l.head_gate);
    if (l.has_mlp) l.routed ? add(*l.routed) : add(l.mlp);
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
