// What all kernels of attention share: pieces of rooms, scores as powers of 2, dropout. Included by kernel files only.
#pragma once

#include "ops/cpu/dropout-inl.h"
#include "ops/cpu/products/attention.h"
#include "ops/cpu/products/lanes-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {

HONE_INLINE std::int64_t round_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }
HONE_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
HONE_INLINE std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// Gives out pieces of a room; from address 0 it measures one.
class Pieces {
 public:
  explicit Pieces(void* room) : start_(reinterpret_cast<std::uintptr_t>(room)), next_(start_) {}
  template <class U>
  HONE_INLINE U* take(std::int64_t count) {
    U* piece = reinterpret_cast<U*>(next_);
    next_ += round_up(count * static_cast<std::int64_t>(sizeof(U)), 64);
    return piece;
  }
  std::int64_t taken() const { return static_cast<std::int64_t>(next_ - start_); }

 private:
  std::uintptr_t start_, next_;
};

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
