// Dropout of attention's shares in kernels, as keeps() of ops/dropout.h decides. Included by kernel files only.
#pragma once

#include <cstring>

#include "ops/cpu/dot/attention.h"
#include "ops/cpu/dot/lanes-inl.h"
#include "ops/dropout.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

// Of a block of queries, which are lanes; W is the type of the shares.
template <class W>
class ShareDropout {
 public:
  ShareDropout(const AttentionDropout& dropout, std::int64_t first_query)
      : on_(dropout.rate > 0),
        threshold_(dropout_threshold(dropout.rate)),
        factor_(static_cast<W>(1 / (1 - dropout.rate))),
        queries_(dropout.queries + (on_ ? first_query : 0)),
        keys_(dropout.keys) {}

  HONE_INLINE bool on() const { return on_; }
  W factor() const { return factor_; }
  // A register of x of one key, for queries from `lane` on: 0 where dropped, unscaled.
  HONE_INLINE Vec<W> kept(Vec<W> x, std::int64_t key, std::int64_t lane) const {
    Words word;  // load_lanes() cannot name this type: g++ drops a dependent vector's size in template arguments
    std::memcpy(&word, queries_ + lane, sizeof(word));
    word ^= keys_[key];
    word = (word ^ word >> 16) * 0x7feb352dU;
    word = (word ^ word >> 15) * 0x846ca68bU;
    const Places keeps = (Places)((word ^ word >> 16) >> 1) >= threshold_;
    return __builtin_convertvector(keeps, Ints<W>) ? x : Vec<W>{};
  }
  template <int R, int V>
  HONE_INLINE void drop(Vec<W> (&x)[R][V], std::int64_t key, std::int64_t lane) const {
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) x[r][v] = kept(x[r][v], key + r, lane + v * kLanes<W>);
    }
  }

 private:
  typedef std::uint32_t Words __attribute__((vector_size(4 * kLanes<W>)));
  typedef std::int32_t Places __attribute__((vector_size(4 * kLanes<W>)));
  bool on_;
  std::int32_t threshold_;
  W factor_;
  const std::uint32_t *queries_, *keys_;
};

}  // namespace hone::ops::cpu::CPU_CAPABILITY
