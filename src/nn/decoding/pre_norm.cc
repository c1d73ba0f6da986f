// The decoder: the ops' own kernels one after another on plain memory, with a barrier where a thread needs what others
// made. Each thread has the hidden states of all rows and norms them itself, which is cheaper than one barrier more.
#include "nn/decoding/pre_norm.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <deque>

#include "hone/error.h"
#include "nn/kv_cache.h"
#include "ops/argmax.h"
#include "ops/cpu/argmax.h"
#include "ops/cpu/finite.h"
#include "ops/cpu/gated.h"
#include "ops/cpu/products/decode.h"
#include "ops/cpu/rms_norm.h"
#include "ops/cpu/rope.h"
#include "ops/finite.h"
#include "ops/kernels.h"
#include "ops/quantized_parts.h"
#include "ops/skinny.h"
#include "ops/skinny_parts.h"
#include "ops/team.h"
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

constexpr std::int64_t kGatedBlocks = 2;  // of gate and of up, before they are brought together

template <class T>
class PreNormDecoder final : public Decoder {
  using W = cpu::Wide<T>;
  using Product = cpu::SkinnyProduct<T>;

  // What is added to a product: b (a x), with a's result multiplied by scale.
  struct Rank {
    Product a, b;
    W scale;
  };
  using Ranks = std::vector<Rank>;
  struct Layer {
    const T *attention_norm, *mlp_norm, *attention_out_norm, *mlp_out_norm, *q_norm, *k_norm;
    bool norms_rows;  // q_norm and k_norm are of all heads together
    std::array<Product, 3> qkv;
    std::array<Product, 1> o, down;
    Product gate, up;
    std::array<Ranks, 3> qkv_ranks;
    std::array<Ranks, 1> o_ranks, down_ranks;
    Ranks gate_ranks, up_ranks;
    std::int64_t window;
  };
  // What each thread has for itself.
  struct Own {
    std::vector<T> x, normed, added;  // [R,D]; added: what was, normed or scaled
    std::vector<T> heads;             // of q or k, normed together
    std::vector<T> inner, rank_part;  // of low ranks: a's results, and b's
    std::vector<W> inv_rms, scores;
    SharedRows packed;
    struct Best {
      std::int64_t id;  // -1: none
      T logit;
      bool finite;  // all logits of the share are
    };
    std::vector<Best> best;  // per row, of the thread's share of the vocabulary
  };

 public:
  PreNormDecoder(PreNormStack weights, std::int64_t rows)
      : w_(std::move(weights)),
        most_rows_(rows),
        hidden_(w_.embedding_VD.size(1)),
        groups_(w_.layers[0].k.weight_OI.size(0) / w_.head_size),
        heads_(w_.layers[0].q.weight_OI.size(0) / w_.head_size / groups_),
        vocab_(w_.head.weight_OI.size(0)) {
    const std::int64_t inner = w_.layers[0].mlp.gate.weight_OI.size(0);
    q_.resize(rows * groups_ * heads_ * w_.head_size), attended_.resize(q_.size());
    k_.resize(rows * groups_ * w_.head_size), v_.resize(k_.size());
    added_.resize(rows * hidden_), inner_.resize(rows * inner), upper_.resize(inner_.size());
    logits_ = at::empty({rows, vocab_}, w_.embedding_VD.options());
    if (logits_.scalar_type() != at::kFloat) wide_ = at::empty({rows, vocab_}, at::kFloat);
    for (const PreNormLayer& layer : w_.layers) layers_.push_back(to_layer(layer));
    head_ = {product(w_.head, nullptr, host::mutable_values<T>(logits_).data())};
  }

  bool step(std::span<const std::int32_t> ids, KvCache& cache) override {
    const std::span<const std::int64_t> lengths = cache.lengths();
    HONE_ASSERT(ids.size() == lengths.size());
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    if (w_.positions > 0 && longest >= w_.positions) return false;
    for (const std::int64_t length : lengths)
      for (const PreNormLayer& layer : w_.layers)
        if (layer.rope && layer.rope->length_class(length + 1) != 0) return false;
    const std::vector<KvCache::Room>* rooms = cache.room_for_one_each();
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

  static const T* data(const at::Tensor& x) { return x.defined() ? host::values<T>(x).data() : nullptr; }

  // x null: the thread's own normed rows.
  Product product(const LinearWeight& w, const T* x, T* y) {
    const std::int64_t outs = w.weight_OI.size(0);
    Product made{x, nullptr, data(w.bias_O), 0, w.weight_OI.size(1), outs, y, outs};
    made.quantized = rows_of(w.quantized);
    if (!made.quantized) made.weight = data(w.weight_OI);
    return made;
  }

  // As kernels see it, for as long as the decoder lives.
  const cpu::QuantizedRows* rows_of(const Quantized* weight) {
    return weight ? &quantized_.emplace_back(quantized_rows(*weight)) : nullptr;
  }

  Layer to_layer(const PreNormLayer& l) {
    return {data(l.attention_norm_D),
            data(l.mlp_norm_D),
            data(l.attention_out_norm_D),
            data(l.mlp_out_norm_D),
            data(l.q_norm),
            data(l.k_norm),
            l.q_norm.defined() && l.q_norm.numel() != w_.head_size,
            {product(l.q, nullptr, q_.data()), product(l.k, nullptr, k_.data()), product(l.v, nullptr, v_.data())},
            {product(l.o, attended_.data(), added_.data())},
            {product(l.mlp.down, inner_.data(), added_.data())},
            product(l.mlp.gate, nullptr, inner_.data()),
            product(l.mlp.up, nullptr, upper_.data()),
            {ranks(l.q), ranks(l.k), ranks(l.v)},
            {ranks(l.o)},
            {ranks(l.mlp.down)},
            ranks(l.mlp.gate),
            ranks(l.mlp.up),
            l.window};
  }

  Ranks ranks(const LinearWeight& w) {
    Ranks made;
    for (const LowRank& low : w.low_ranks) {
      most_rank_ = std::max(most_rank_, low.a_RI.size(0)), most_outs_ = std::max(most_outs_, low.b_OR.size(0));
      made.push_back(
          {product({low.a_RI}, nullptr, nullptr), product({low.b_OR}, nullptr, nullptr), static_cast<W>(low.scale)});
    }
    return made;
  }

  // All room that the threads will need.
  void prepare(const Step& step) {
    own_.resize(std::max<std::size_t>(own_.size(), team_size()));
    std::int64_t longest = 0;
    for (const KvCache::Room& room : step.rooms) longest = std::max(longest, room.k_RGCK.size(2));
    for (Own& own : own_) {
      own.x.resize(most_rows_ * hidden_), own.normed.resize(own.x.size()), own.added.resize(own.x.size());
      own.heads.resize(groups_ * heads_ * w_.head_size);
      own.inv_rms.resize(std::max(most_rows_, heads_)), own.best.assign(most_rows_, {-1, T(0), true});
      own.scores.resize(std::max<std::size_t>(own.scores.size(), heads_ * longest));
      own.inner.resize(most_rows_ * most_rank_);
      own.rank_part.resize(most_rows_ * most_outs_);
    }
    likeliest_.resize(rows_);
  }

  void run(const Step& step, const Member& me) {
    Own& own = own_[me.number];
    for (std::int64_t r = 0; r < rows_; ++r) {
      T* x = own.x.data() + r * hidden_;
      std::copy_n(data(w_.embedding_VD) + step.ids[r] * hidden_, hidden_, x);
      scale(x, hidden_, w_.embedding_scale);
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      norm(own, added(own, l > 0 ? &layers_[l - 1].mlp_out_norm : nullptr), layers_[l].attention_norm);
      multiply(layers_[l].qkv, layers_[l].qkv_ranks, own, me);
      me.wait();
      for (std::int64_t task = me.number; task < rows_ * groups_; task += me.size)
        attend(layers_[l], step, step.rooms[l], step.ropes[l], task, own);
      me.wait();
      multiply(layers_[l].o, layers_[l].o_ranks, own, me);
      me.wait();
      norm(own, added(own, &layers_[l].attention_out_norm), layers_[l].mlp_norm);
      multiply_gated(layers_[l], own, me);
      me.wait();
      multiply(layers_[l].down, layers_[l].down_ranks, own, me);
      me.wait();
    }
    norm(own, added(own, &layers_.back().mlp_out_norm), data(w_.norm_D));
    scale(own.normed.data(), rows_ * hidden_, w_.hidden_scale);
    multiply(head_, {}, own, me);
    find_best(own, me);
  }

  static void scale(T* x, std::int64_t count, double by) {
    if (by == 1) return;
    for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<T>(static_cast<W>(x[i]) * static_cast<W>(by));
  }

  void rms_norm(const T* x, const T* residual, const T* weight, std::int64_t rows, std::int64_t cols, T* sum, T* y,
                Own& own) const {
    cpu::rms_norm_kernels<T>().forward(x, residual, {weight, w_.norm.factor}, static_cast<W>(w_.norm.eps), rows, cols,
                                       sum, y, own.inv_rms.data());
  }

  // What attention or MLP have made, as it is added: normed or scaled where that is done. norm null: nothing is.
  const T* added(Own& own, const T* const* norm) const {
    if (!norm) return nullptr;
    if (!*norm && w_.residual_scale == 1) return added_.data();
    if (*norm)
      rms_norm(added_.data(), nullptr, *norm, rows_, hidden_, nullptr, own.added.data(), own);
    else
      std::copy_n(added_.data(), rows_ * hidden_, own.added.data());
    scale(own.added.data(), rows_ * hidden_, w_.residual_scale);
    return own.added.data();
  }

  // x += what is added to it, then its norm.
  void norm(Own& own, const T* added, const T* weight) const {
    if (weight)
      return rms_norm(own.x.data(), added, weight, rows_, hidden_, added ? own.x.data() : nullptr, own.normed.data(),
                      own);
    for (std::int64_t i = 0; added && i < rows_ * hidden_; ++i)
      own.x[i] = static_cast<T>(static_cast<W>(own.x[i]) + static_cast<W>(added[i]));
    std::copy_n(own.x.data(), rows_ * hidden_, own.normed.data());
  }

  Product placed(Product p, const Own& own) const {
    if (!p.x) p.x = own.normed.data();
    p.rows = rows_;
    return p;
  }

  template <std::size_t kCount>
  void multiply(std::array<Product, kCount> products, const std::array<Ranks, kCount>& ranks, Own& own,
                const Member& me) {
    std::int64_t blocks = 0;
    for (Product& p : products) p = placed(p, own), blocks += blocks_of(p);
    std::int64_t begin = me.begin(blocks), end = me.end(blocks);
    if (begin == end) return;
    own.packed.pack_for(products);
    multiply_blocks<T>(products, begin, end);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::int64_t own_blocks = blocks_of(products[i]);
      if (begin < own_blocks && end > 0)
        add_ranks(ranks[i], products[i], std::max<std::int64_t>(0, begin), std::min(end, own_blocks), own);
      begin -= own_blocks, end -= own_blocks;
    }
  }

  // Each thread makes a's few outputs itself, which is cheaper than to wait for those of others.
  void make_inner(const Rank& rank, const T* x, std::vector<T>& inner) const {
    Product a = rank.a;
    a.x = x, a.rows = rows_, a.y = inner.data();
    cpu::skinny_kernels<T>().multiply(a);
    for (std::int64_t i = 0; i < rows_ * a.outs; ++i) inner[i] = static_cast<T>(static_cast<W>(inner[i]) * rank.scale);
  }

  // y += b inner, of y's blocks [begin, end).
  void add_inner(const Rank& rank, const std::vector<T>& inner, const Product& p, std::int64_t begin, std::int64_t end,
                 Own& own) const {
    Product b = rank.b;
    b.x = inner.data(), b.rows = rows_, b.y = own.rank_part.data();
    b = cut(b, begin, end);
    cpu::skinny_kernels<T>().multiply(b);
    const Product y = cut(p, begin, end);
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t o = 0; o < b.outs; ++o) {
        T& to = y.y[r * y.stride + o];
        to = static_cast<T>(static_cast<W>(to) + static_cast<W>(b.y[r * b.stride + o]));
      }
  }

  void add_ranks(const Ranks& ranks, const Product& p, std::int64_t begin, std::int64_t end, Own& own) const {
    for (const Rank& rank : ranks) {
      make_inner(rank, p.x, own.inner);
      add_inner(rank, own.inner, p, begin, end, own);
    }
  }

  void multiply_gated(const Layer& layer, Own& own, const Member& me) const {
    std::array<Product, 2> both{placed(layer.gate, own), placed(layer.up, own)};
    const std::int64_t first = me.begin(blocks_of(both[0])), last = me.end(blocks_of(both[0]));
    if (first == last) return;
    own.packed.pack_for(both);
    const auto& [gate, up] = both;
    const bool plain = layer.gate_ranks.empty() && layer.up_ranks.empty();
    for (std::int64_t begin = first; begin < last; begin += kGatedBlocks) {
      const Product g = cut(gate, begin, std::min(last, begin + kGatedBlocks)),
                    u = cut(up, begin, std::min(last, begin + kGatedBlocks));
      ops::multiply(g);
      ops::multiply(u);
      if (plain) bring_together(g, u);
    }
    if (plain) return;
    add_ranks(layer.gate_ranks, gate, first, last, own);
    add_ranks(layer.up_ranks, up, first, last, own);
    bring_together(cut(gate, first, last), cut(up, first, last));
  }

  void bring_together(const Product& g, const Product& u) const {
    for (std::int64_t r = 0; r < rows_; ++r)
      cpu::gated_kernels<T>().forward(w_.activation, g.y + r * g.stride, u.y + r * u.stride, g.outs,
                                      g.y + r * g.stride);
  }

  // Rotates where that is done.
  void turn(T* x, std::int64_t heads, const RopeTable* rope, const Step& step, std::int64_t row) const {
    if (!rope) return;
    const std::int64_t size = w_.head_size;
    cpu::rope_kernels<T>().rotate({.x = x,
                                   .x_stride = heads * size,
                                   .cos = host::values<W>(rope->cos).data(),
                                   .sin = host::values<W>(rope->sin).data(),
                                   .rows = &step.positions[row],
                                   .tokens = 1,
                                   .heads = heads,
                                   .half = size / 2,
                                   .y = x,
                                   .y_stride = heads * size});
  }

  // Queries or keys of a row for one key/value head, normed where that is done: in their place, or, where all heads of
  // the row are normed together, which other tasks read, in the thread's own.
  T* normed_heads(T* row, std::int64_t heads, std::int64_t task, const T* norm, bool together, Own& own) const {
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

  // The query heads of one key/value head of one row: task = row * groups + head.
  void attend(const Layer& layer, const Step& step, const KvCache::Room& room, const RopeTable* rope, std::int64_t task,
              Own& own) {
    const std::int64_t row = task / groups_, size = w_.head_size, held = room.held[row],
                       at = task * room.k_RGCK.size(2) * size;
    T* k = normed_heads(k_.data() + row * groups_ * size, 1, task, layer.k_norm, layer.norms_rows, own);
    turn(k, 1, rope, step, row);
    T* keys = host::mutable_values<T>(room.k_RGCK).data() + at;
    T* values = host::mutable_values<T>(room.v_RGCK).data() + at;
    std::copy_n(k, size, keys + held * size);  // before q takes the thread's room
    std::copy_n(v_.data() + task * size, size, values + held * size);
    T* q = normed_heads(q_.data() + row * groups_ * heads_ * size, heads_, task, layer.q_norm, layer.norms_rows, own);
    turn(q, heads_, rope, step, row);
    const std::int64_t length = held + 1,
                       first = layer.window > 0 ? std::max<std::int64_t>(0, length - layer.window) : 0;
    cpu::decode_kernels<T>().attend({q, keys + first * size, values + first * size, heads_, length - first, size,
                                     static_cast<W>(w_.scale), own.scores.data(),
                                     attended_.data() + task * heads_ * size});
  }

  void find_best(Own& own, const Member& me) const {
    const std::int64_t blocks = blocks_of(head_[0]), begin = std::min(vocab_, me.begin(blocks) * kSkinnyBlock),
                       end = std::min(vocab_, me.end(blocks) * kSkinnyBlock);
    for (std::int64_t r = 0; begin < end && r < rows_; ++r) {
      const T* row = head_[0].y + r * vocab_;
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
      const bool finite = std::all_of(own_.begin(), own_.end(), [&](const Own& own) { return own.best[r].finite; });
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
  std::int64_t rows_ = 0, most_rank_ = 0, most_outs_ = 0;           // of low ranks
  std::vector<Layer> layers_;
  std::array<Product, 1> head_;
  std::vector<T> q_, k_, v_, attended_, added_, inner_, upper_;  // shared by the threads; upper: what goes with inner
  std::deque<cpu::QuantizedRows> quantized_;
  std::vector<const RopeTable*> ropes_;                          // of the step, by layer
  at::Tensor logits_, wide_;                                     // [R,V]; wide: in fp32, undefined where logits are
  std::vector<Own> own_;
  std::vector<std::int32_t> likeliest_;
};

// Every tensor that the weights name.
std::vector<at::Tensor> tensors_of(const PreNormStack& w) {
  std::vector<at::Tensor> all{w.embedding_VD, w.norm_D};
  const auto add = [&](const LinearWeight& linear) {
    all.insert(all.end(), {linear.weight_OI, linear.bias_O});
    for (const LowRank& low : linear.low_ranks) all.insert(all.end(), {low.a_RI, low.b_OR});
  };
  add(w.head);
  for (const PreNormLayer& l : w.layers) {
    all.insert(all.end(),
               {l.attention_norm_D, l.mlp_norm_D, l.attention_out_norm_D, l.mlp_out_norm_D, l.q_norm, l.k_norm});
    for (const LinearWeight* linear : {&l.q, &l.k, &l.v, &l.o, &l.mlp.gate, &l.mlp.up, &l.mlp.down}) add(*linear);
  }
  std::erase_if(all, [](const at::Tensor& x) { return !x.defined(); });
  return all;
}

bool takes(const PreNormStack& stack) {
  const std::vector<at::Tensor> all = tensors_of(stack);
  return !stack.layers.empty() && std::all_of(all.begin(), all.end(), [&](const at::Tensor& x) {
    return kernels_take({x, all[0]}) && x.is_contiguous() && x.numel() > 0;
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
