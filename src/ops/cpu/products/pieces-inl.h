// Pieces of the rooms that kernels work in. Included by kernel files only.
#pragma once

#include <cstdint>

#include "ops/cpu/vec-inl.h"

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

}  // namespace hone::ops::cpu::CPU_CAPABILITY
