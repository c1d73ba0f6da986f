// The short way's products of few rows on plain memory, with what adapters add: threads share the outputs of several of
// one input as one line of blocks. And what each thread has for itself.
//
// Letters: R rows, D hidden.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ops/cpu/gated.h"
#include "ops/linear.h"
#include "ops/quantized_parts.h"
#include "ops/skinny_parts.h"
#include "ops/team.h"
#include "tensor/host.h"

namespace hone::nn {

template <class T>
using Product = ops::cpu::SkinnyProduct<T>;

// What is added to a product: b (a x), with a's result multiplied by scale.
template <class T>
struct Rank {
  Product<T> a, b;
  ops::cpu::Wide<T> scale;
};
template <class T>
using Ranks = std::vector<Rank<T>>;

template <class T>
struct Line {
  std::vector<Product<T>> products;  // x null: the thread's own normed rows
  std::vector<Ranks<T>> ranks;
};

// What each thread has for itself.
template <class T>
struct Own {
  using W = ops::cpu::Wide<T>;
  std::vector<T> x, normed, added;  // [R,D]; added: what was, normed or scaled
  std::vector<T> heads;             // of q or k, normed together or apart from their gates
  std::vector<T> inner, rank_part;  // of low ranks: a's results, and b's
  std::vector<W> inv_rms, scores;
  ops::SharedRows packed;
  std::vector<Product<T>> placed;       // of a line, in this step
  std::vector<std::int64_t> positions;  // of a row, as often as it has heads
  struct Best {
    std::int64_t id;  // -1: none
    T logit;
    bool finite;  // all logits of the share are
  };
  std::vector<Best> best;  // per row, of the thread's share of the vocabulary
};

// Weights as kernels see them, for as long as this lives; and how much room their ranks need.
template <class T>
class ProductMaker {
 public:
  // stride: from one row of y to the next; 0: rows lie side by side.
  Product<T> product(const ops::LinearWeight& w, const T* x, T* y, std::int64_t stride = 0) {
    const std::int64_t outs = w.weight_OI.size(0);
    Product<T> made{x, nullptr, data(w.bias_O), 0, w.weight_OI.size(1), outs, y, stride > 0 ? stride : outs};
    if (w.quantized)
      made.quantized = &quantized_.emplace_back(ops::quantized_rows(*w.quantized));
    else
      made.weight = data(w.weight_OI);
    return made;
  }
  Ranks<T> ranks(const ops::LinearWeight& w) {
    Ranks<T> made;
    for (const ops::LowRank& low : w.low_ranks) {
      most_rank_ = std::max(most_rank_, low.a_RI.size(0)), most_outs_ = std::max(most_outs_, low.b_OR.size(0));
      made.push_back({product({low.a_RI}, nullptr, nullptr), product({low.b_OR}, nullptr, nullptr),
                      static_cast<ops::cpu::Wide<T>>(low.scale)});
    }
    return made;
  }
  void add(Line<T>& line, const ops::LinearWeight& w, const T* x, T* y, std::int64_t stride = 0) {
    line.products.push_back(product(w, x, y, stride));
    line.ranks.push_back(ranks(w));
  }
  Line<T> line(const ops::LinearWeight& w, const T* x, T* y) {
    Line<T> made;
    add(made, w, x, y);
    return made;
  }
  std::int64_t most_rank() const { return most_rank_; }
  std::int64_t most_outs() const { return most_outs_; }
  static const T* data(const at::Tensor& x) { return x.defined() ? host::values<T>(x).data() : nullptr; }

 private:
  std::deque<ops::cpu::QuantizedRows> quantized_;
  std::int64_t most_rank_ = 0, most_outs_ = 0;
};

template <class T>
Product<T> placed(Product<T> p, std::int64_t rows, const Own<T>& own) {
  if (!p.x) p.x = own.normed.data();
  p.rows = rows;
  return p;
}

// y += b inner, of y's blocks [begin, end), where each thread makes a's few outputs itself, which is cheaper than to
// wait for those of others.
template <class T>
void add_ranks(const Ranks<T>& ranks, const Product<T>& p, std::int64_t begin, std::int64_t end, Own<T>& own) {
  using W = ops::cpu::Wide<T>;
  for (const Rank<T>& rank : ranks) {
    Product<T> a = rank.a;
    a.x = p.x, a.rows = p.rows, a.y = own.inner.data();
    ops::cpu::skinny_kernels<T>().multiply(a);
    for (std::int64_t i = 0; i < a.rows * a.outs; ++i)
      own.inner[i] = static_cast<T>(static_cast<W>(own.inner[i]) * rank.scale);
    Product<T> b = rank.b;
    b.x = own.inner.data(), b.rows = p.rows, b.y = own.rank_part.data();
    b = ops::cut(b, begin, end);
    ops::cpu::skinny_kernels<T>().multiply(b);
    const Product<T> y = ops::cut(p, begin, end);
    for (std::int64_t r = 0; r < p.rows; ++r)
      for (std::int64_t o = 0; o < b.outs; ++o) {
        T& to = y.y[r * y.stride + o];
        to = static_cast<T>(static_cast<W>(to) + static_cast<W>(b.y[r * b.stride + o]));
      }
  }
}

// The thread's share of a line. made(i, first, last): outputs [first, last) of product i are there.
template <class T, class Made>
void multiply(const Line<T>& line, std::int64_t rows, Own<T>& own, const ops::Member& me, Made&& made) {
  own.placed.clear();
  std::int64_t blocks = 0;
  for (const Product<T>& p : line.products) {
    own.placed.push_back(placed(p, rows, own));
    blocks += ops::blocks_of(p);
  }
  std::int64_t begin = me.begin(blocks), end = me.end(blocks);
  if (begin == end) return;
  own.packed.pack_for(std::span(own.placed));
  ops::multiply_blocks<T>(own.placed, begin, end);
  for (std::size_t i = 0; i < own.placed.size(); ++i) {
    const std::int64_t own_blocks = ops::blocks_of(own.placed[i]);
    const std::int64_t first = std::max<std::int64_t>(0, begin), last = std::min(end, own_blocks);
    if (first < last) {
      add_ranks(line.ranks[i], own.placed[i], first, last, own);
      made(i, first * ops::kSkinnyBlock, std::min(own.placed[i].outs, last * ops::kSkinnyBlock));
    }
    begin -= own_blocks, end -= own_blocks;
  }
}
template <class T>
void multiply(const Line<T>& line, std::int64_t rows, Own<T>& own, const ops::Member& me) {
  multiply(line, rows, own, me, [](std::size_t, std::int64_t, std::int64_t) {});
}

constexpr std::int64_t kGatedBlocks = 2;  // of gate and of up, before they are brought together

// act(gate) * up, which comes where gate was.
template <class T>
struct GatedPair {
  Product<T> gate, up;
  Ranks<T> gate_ranks, up_ranks;
  ops::Activation activation;
  double gate_scale = 1;  // before the activation
  bool is_square = false, is_alone = false;  // up is what gate is; there is none: act(gate)
};
template <class T>
GatedPair<T> gated_pair(ProductMaker<T>& make, const ops::GatedMlpWeights& w, ops::Activation activation, T* inner,
                        T* upper, double gate_scale = 1) {
  GatedPair<T> made{make.product(w.gate, nullptr, inner), {}, make.ranks(w.gate), {}, activation, gate_scale};
  made.is_alone = !w.up.weight_OI.defined(), made.is_square = w.up.weight_OI.is_same(w.gate.weight_OI);
  if (!made.is_alone && !made.is_square) made.up = make.product(w.up, nullptr, upper), made.up_ranks = make.ranks(w.up);
  return made;
}

template <class T>
void bring_together(const Product<T>& g, const Product<T>& u, ops::Activation activation) {
  for (std::int64_t r = 0; r < g.rows; ++r)
    ops::cpu::gated_kernels<T>().forward(activation, g.y + r * g.stride, u.y + r * u.stride, g.outs,
                                         g.y + r * g.stride);
}

// Blocks [first, last) of both, without what adapters add.
template <class T>
void multiply_gated(const Product<T>& gate, const Product<T>& up, ops::Activation activation, std::int64_t first,
                    std::int64_t last) {
  for (std::int64_t begin = first; begin < last; begin += kGatedBlocks) {
    const Product<T> g = ops::cut(gate, begin, std::min(last, begin + kGatedBlocks)),
                     u = ops::cut(up, begin, std::min(last, begin + kGatedBlocks));
    ops::multiply(g);
    ops::multiply(u);
    bring_together(g, u, activation);
  }
}

// act(gate), of which 1 times as much is.
template <class T>
void activate(const Product<T>& g, ops::Activation activation) {
  static const std::vector<T> ones(static_cast<std::size_t>(ops::kSkinnyBlock), T(1));
  for (std::int64_t r = 0; r < g.rows; ++r)
    for (std::int64_t i = 0; i < g.outs; i += ops::kSkinnyBlock) {
      T* y = g.y + r * g.stride + i;
      ops::cpu::gated_kernels<T>().forward(activation, y, ones.data(), std::min(ops::kSkinnyBlock, g.outs - i), y);
    }
}

// What belongs to blocks of gate and of up (where it is apart) that are there.
template <class T>
void finish(const GatedPair<T>& pair, const Product<T>& g, const Product<T>& u) {
  using W = ops::cpu::Wide<T>;
  for (std::int64_t r = 0; pair.gate_scale != 1 && r < g.rows; ++r)
    for (std::int64_t i = 0; i < g.outs; ++i) {
      T& y = g.y[r * g.stride + i];
      y = static_cast<T>(static_cast<W>(y) * static_cast<W>(pair.gate_scale));
    }
  if (pair.is_alone)
    activate(g, pair.activation);
  else
    bring_together(g, pair.is_square ? g : u, pair.activation);
}

// The thread's share.
template <class T>
void multiply_gated(const GatedPair<T>& pair, std::int64_t rows, Own<T>& own, const ops::Member& me) {
  const bool has_up = !pair.is_alone && !pair.is_square;
  own.placed = {placed(pair.gate, rows, own)};
  if (has_up) own.placed.push_back(placed(pair.up, rows, own));
  const std::int64_t blocks = ops::blocks_of(own.placed[0]), first = me.begin(blocks), last = me.end(blocks);
  if (first == last) return;
  own.packed.pack_for(std::span(own.placed));
  const Product<T>& gate = own.placed[0];
  if (has_up && pair.gate_ranks.empty() && pair.up_ranks.empty() && pair.gate_scale == 1)
    return multiply_gated(gate, own.placed[1], pair.activation, first, last);
  const Product<T> g = ops::cut(gate, first, last);
  ops::multiply(g);
  add_ranks(pair.gate_ranks, gate, first, last, own);
  if (!has_up) return finish(pair, g, g);
  const Product<T> u = ops::cut(own.placed[1], first, last);
  ops::multiply(u);
  add_ranks(pair.up_ranks, own.placed[1], first, last, own);
  finish(pair, g, u);
}

}  // namespace hone::nn
