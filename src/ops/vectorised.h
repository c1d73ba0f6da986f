// Loops that are a few lines of a larger file, compiled for each instruction set and run at ops::level(). What has
// more to it is a kernel with a file of its own (ops/cpu/kernel.h).
#pragma once

#include "ops/kernels.h"

namespace hone::ops {
namespace loops {

// All that the loop calls becomes part of the function, and so is compiled for its instruction set.
#define HONE_LOOP_FOR(name, ...)            \
  template <class Loop>                     \
  __VA_ARGS__ auto name(const Loop& loop) { \
    return loop();                          \
  }
HONE_LOOP_FOR(basic, [[gnu::flatten]])
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
HONE_LOOP_FOR(avx2, [[gnu::flatten, gnu::target("arch=x86-64-v3")]])
HONE_LOOP_FOR(avx512, [[gnu::flatten, gnu::target("arch=x86-64-v4")]])
#else
HONE_LOOP_FOR(avx2, [[gnu::flatten]])
HONE_LOOP_FOR(avx512, [[gnu::flatten]])
#endif
#undef HONE_LOOP_FOR

}  // namespace loops

// Runs loop(), a lambda whose loops say `#pragma omp simd`, and gives what it gives.
template <class Loop>
auto vectorised(const Loop& loop) {
  if (level() >= Level::avx512) return loops::avx512(loop);
  if (level() >= Level::avx2) return loops::avx2(loop);
  return loops::basic(loop);
}

}  // namespace hone::ops
