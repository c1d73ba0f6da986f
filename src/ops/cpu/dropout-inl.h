// Dropout in kernels, as keeps() of ops/dropout_words.h decides. Included by kernel files only.
#pragma once

#include <cstring>

#include "ops/cpu/vec-inl.h"
#include "ops/dropout_words.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

// Of numbers W in rows and lanes, each with its words; those of lanes are readable in whole registers. Without a rate
// there are no words.
template <class W>
class LaneDropout {
 public:
  LaneDropout(double rate, const std::uint32_t* lanes, const std::uint32_t* rows)
      : on_(rate > 0),
        threshold_(dropout_threshold(rate)),
        factor_(static_cast<W>(1 / (1 - rate))),
        lanes_(lanes),
        rows_(rows) {}

  HONE_INLINE bool on() const { return on_; }
  W factor() const { return factor_; }
  // A register of x of one row, from `lane` on: 0 where dropped, unscaled.
  HONE_INLINE Vec<W> kept(Vec<W> x, std::int64_t row, std::int64_t lane) const {
    LaneWords word;  // load_lanes() cannot name this type: g++ drops a dependent vector's size in template arguments
    std::memcpy(&word, lanes_ + lane, sizeof(word));
    word ^= rows_[row];
    word = (word ^ word >> 16) * 0x7feb352dU;
    word = (word ^ word >> 15) * 0x846ca68bU;
    const Places keeps = (Places)((word ^ word >> 16) >> 1) >= threshold_;
    return __builtin_convertvector(keeps, Ints<W>) ? x : Vec<W>{};
  }
  template <int R, int V>
  HONE_INLINE void drop(Vec<W> (&x)[R][V], std::int64_t row, std::int64_t lane) const {
    HONE_UNROLL
    for (int r = 0; r < R; ++r) {
      HONE_UNROLL
      for (int v = 0; v < V; ++v) x[r][v] = kept(x[r][v], row + r, lane + v * kLanes<W>);
    }
  }

 private:
  typedef std::uint32_t LaneWords __attribute__((vector_size(4 * kLanes<W>)));
  typedef std::int32_t Places __attribute__((vector_size(4 * kLanes<W>)));
  bool on_;
  std::int32_t threshold_;
  W factor_;
  const std::uint32_t *lanes_, *rows_;
};

}  // namespace hone::ops::cpu::CPU_CAPABILITY
