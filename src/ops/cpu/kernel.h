// How kernels are declared and chosen: each file of this folder is compiled once per instruction set (CPU_CAPABILITY).
//
// A kernel set is a struct template of function pointers, one per element type. In a header:
//   template <class T> struct RmsNormKernels { void (*forward)(…); };
//   HONE_KERNELS(RmsNormKernels, rms_norm_kernels)
// and in the .cc of the same name, inside namespace hone::ops::cpu::CPU_CAPABILITY, its definition. Callers write
// cpu::rms_norm_kernels<float>().forward(…). Kernels take plain pointers and know nothing of tensors.
//
// Kernels that multiply matrices lie in products/ and are declared by HONE_DOT_KERNELS: these files are compiled once
// more, for AVX512BF16, where bf16 pairs have a dot product of their own. Of these, HONE_TILE_KERNELS declares the ones
// that are made for AMX too, for bf16 only; attention's are another text there (tile_attention_*.cc).
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>
#include <type_traits>

#include "ops/level.h"

#define HONE_KERNELS_OF(set, Set, name) \
  namespace set {                       \
  template <class T>                    \
  Set<T> name();                        \
  }

#if defined(__x86_64__)
// `first` is done before the choice; `pairs`: the instruction set for CPUs with dot products of bf16 pairs.
#define HONE_CHOOSE_KERNELS(Set, name, first, pairs) \
  HONE_KERNELS_OF(DEFAULT, Set, name)                \
  HONE_KERNELS_OF(AVX2, Set, name)                   \
  HONE_KERNELS_OF(AVX512, Set, name)                 \
  template <class T>                                 \
  Set<T> name() {                                    \
    first;                                           \
    switch (level()) {                               \
      case Level::amx:                               \
      case Level::avx512bf16:                        \
        return pairs::name<T>();                     \
      case Level::avx512:                            \
        return AVX512::name<T>();                    \
      case Level::avx2:                              \
        return AVX2::name<T>();                      \
      default:                                       \
        return DEFAULT::name<T>();                   \
    }                                                \
  }
#define HONE_KERNELS(Set, name) HONE_CHOOSE_KERNELS(Set, name, , AVX512)
#define HONE_DOT_KERNELS(Set, name)      \
  HONE_KERNELS_OF(AVX512BF16, Set, name) \
  HONE_CHOOSE_KERNELS(Set, name, , AVX512BF16)
#define HONE_TILE_KERNELS(Set, name)                                                            \
  HONE_KERNELS_OF(AMX, Set, name)                                                               \
  HONE_KERNELS_OF(AVX512BF16, Set, name)                                                        \
  inline Set<c10::BFloat16> (*name##_of_tiles)() = AMX::name<c10::BFloat16>; /* tests change */ \
  HONE_CHOOSE_KERNELS(Set, name, HONE_TAKE_TILES(name), AVX512BF16)
#define HONE_TAKE_TILES(name)                     \
  if constexpr (std::is_same_v<T, c10::BFloat16>) \
    if (level() == Level::amx) return name##_of_tiles()
#else
#define HONE_KERNELS(Set, name)       \
  HONE_KERNELS_OF(DEFAULT, Set, name) \
  template <class T>                  \
  Set<T> name() {                     \
    return DEFAULT::name<T>();        \
  }
#define HONE_DOT_KERNELS(Set, name) HONE_KERNELS(Set, name)
#define HONE_TILE_KERNELS(Set, name) HONE_KERNELS(Set, name)
#endif

// In a kernel file: makes the set for every element type.
#define HONE_INSTANTIATE_KERNELS(Set, name) \
  template Set<float> name<float>();        \
  template Set<double> name<double>();      \
  template Set<c10::BFloat16> name<c10::BFloat16>();
// The same for HONE_TILE_KERNELS.
#if defined(CPU_CAPABILITY_AMX)
#define HONE_INSTANTIATE_TILE_KERNELS(Set, name) template Set<c10::BFloat16> name<c10::BFloat16>();
#else
#define HONE_INSTANTIATE_TILE_KERNELS(Set, name) HONE_INSTANTIATE_KERNELS(Set, name)
#endif

namespace hone::ops::cpu {

using bf16 = c10::BFloat16;

// The type that a kernel computes in: fp32 for bf16.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace hone::ops::cpu
