// What all kernels of attention share: scores as powers of 2, dropout. Included by kernel files only.
#pragma once

#include "ops/cpu/dropout-inl.h"
#include "ops/cpu/products/attention.h"
#include "ops/cpu/products/lanes-inl.h"
#include "ops/cpu/products/pieces-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

template <class T>
inline constexpr int kExpDegree = std::is_same_v<T, bf16> ? 4 : 6;
inline constexpr double kLog2e = 1.4426950408889634, kLn2 = 0.6931471805599453;

// Scores times their scale, or s * tanh(scores / s) for a soft cap s: all in powers of 2.
template <class W>
class ScoreScale {
 public:
  explicit ScoreScale(const AttentionShape& shape)
      : scale_(static_cast<W>(shape.soft_cap > 0 ? shape.scale / shape.soft_cap : shape.scale * kLog2e)),
        cap_(static_cast<W>(shape.soft_cap * kLog2e)) {}
  HONE_INLINE bool capped() const { return cap_ > 0; }
  HONE_INLINE Vec<W> turned(Vec<W> x) const { return tanh_of(x * scale_); }  // REQUIRES: capped()
  HONE_INLINE Vec<W> of_turned(Vec<W> x) const { return x * cap_; }
  HONE_INLINE Vec<W> uncapped(Vec<W> x) const { return x * scale_; }  // REQUIRES: not capped()
  HONE_INLINE Vec<W> operator()(Vec<W> x) const { return capped() ? of_turned(turned(x)) : uncapped(x); }

 private:
  W scale_, cap_;
};

// Of shares: keys are rows, queries from `first` on are lanes.
template <class W>
LaneDropout<W> share_dropout(const AttentionDropout& dropout, std::int64_t first) {
  return {dropout.rate, dropout.rate > 0 ? dropout.queries + first : nullptr, dropout.keys};
}

}  // namespace hone::ops::cpu::CPU_CAPABILITY
