// How much of a chunk's tokens, and of the memory before them, is left for later ones. Included by kernel files only.
//
// Letters: t tokens that read, s tokens up to them.
#pragma once

#include "ops/cpu/products/memory-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

// Of a chunk's tokens: the sum of the logarithms of what is kept, up to each.
template <class W>
struct ChunkDecay {
  explicit ChunkDecay(Pieces& pieces) {
    for (W** x : {&sum, &seen, &kept, &step}) *x = pieces.take<W>(kChunk);
  }
  void read(const W* decays, const W* steps, std::int64_t stride, std::int64_t count, std::int64_t padded) {
    W total = 0;
    for (std::int64_t t = 0; t < padded; ++t) {
      if (t < count) total += decays[t * stride];
      sum[t] = total;
      step[t] = t < count ? steps[t * stride] : W(0);
    }
    for (std::int64_t t = 0; t < padded; t += kLanes<W>) {
      const auto so_far = load_lanes<Vec<W>>(sum + t);
      store_lanes(seen + t, exp_of(so_far));
      store_lanes(kept + t, exp_of(total - so_far));
    }
    decay = exp_of(all(total))[0];
  }
  W *sum, *step;
  W* seen;      // by which t sees the memory
  W* kept;      // by which the memory takes s in
  W decay = 0;  // by which the memory keeps what it has
};

// to[t][s] = of(t, products' lanes, e^(sum_t - sum_s)) for s up to t, 0 behind it. products [t][s].
template <class W, class Of>
void each_share(const ChunkDecay<W>& gates, const W* products, std::int64_t padded, W* to, Of&& of) {
  for (std::int64_t t = 0; t < padded; ++t)
    for (std::int64_t s = 0; s < padded; s += kLanes<W>) {
      Vec<W> x{};
      if (s <= t)
        x = up_to_row<W>(of(t, load_lanes<Vec<W>>(products + t * kChunk + s),
                            exp_of(gates.sum[t] - load_lanes<Vec<W>>(gates.sum + s))),
                         t, s);
      store_lanes(to + t * kChunk + s, x);
    }
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
