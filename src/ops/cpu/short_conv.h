// Kernels of ops::short_conv over stretches of a document's tokens.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// x, y, dy and dx point to the stretch's first token.
template <class T>
struct ShortConvArgs {
  const T* x = nullptr;             // [tokens, channels]
  const Wide<T>* weight = nullptr;  // [taps, channels], the newest token's last
  const Wide<T>* bias = nullptr;    // [channels]; null: none
  bool silu = true;
  std::int64_t tokens = 0, channels = 0, taps = 0;
  std::int64_t before = 0;  // tokens of the document before the stretch
  T* y = nullptr;
  std::int64_t stride = 0;  // from one token of x, and one tap of the weight, to the next; 0: channels
};

template <class T>
struct ShortConvGradientArgs {
  const T *dy = nullptr, *x = nullptr;
  const Wide<T>*weight = nullptr, *bias = nullptr;
  bool silu = true;
  std::int64_t tokens = 0, channels = 0, taps = 0;
  std::int64_t before = 0, after = 0;  // tokens of the document before and behind the stretch
  T* dx = nullptr;
  Wide<T>* dweight = nullptr;  // [taps, channels], added to; dbias [channels], likewise, null: not wanted
  Wide<T>* dbias = nullptr;
  Wide<T>* room = nullptr;     // [taps, channels]
};

template <class T>
struct ShortConvKernels {
  void (*forward)(const ShortConvArgs<T>& args);
  void (*backward)(const ShortConvGradientArgs<T>& args);
};
HONE_KERNELS(ShortConvKernels, short_conv_kernels)

}  // namespace hone::ops::cpu
