// Kernels that make numbers of few bits, and numbers of them.
#pragma once

#include "ops/cpu/kernel.h"

namespace hone::ops::cpu {

// Where each block's scale is: plain, or in eight bits (ops::Quantized).
struct BlockScales {
  const float* scales;
  const std::uint8_t* codes = nullptr;  // null: scales are what they are
  const float* table = nullptr;
  float offset = 0;
  float of(std::int64_t block) const {
    if (!codes) return scales[block];
    float scale = table[codes[block]] * scales[block / 256];
#if defined(__x86_64__)
    __asm__("" : "+x"(scale));  // rounded before it is added to, whatever the compiler would make of both
#endif
    return scale + offset;
  }
};

struct FourBits {
  const std::uint8_t* codes;
  const float* table;  // [16]
  BlockScales scales;
  std::int64_t block;
};

// What numbers between two neighbours of a table become.
struct Nearest {
  float bounds[15];        // rising; a number that is one goes to the lower side
  std::uint8_t codes[16];  // of the places between them
};

template <class T>
struct QuantizedKernels {
  // `count` numbers of which the first begins a block. Scales come out as they are before they are quantized.
  void (*to_four_bits)(const T* x, std::int64_t count, std::int64_t block, const Nearest& nearest, std::uint8_t* codes,
                       float* scales);
  // Numbers [begin, end). REQUIRES: begin is where a block begins.
  void (*from_four_bits)(const FourBits& from, std::int64_t begin, std::int64_t end, T* to);
  // A row of `count`.
  void (*to_int8)(const T* x, std::int64_t count, std::int8_t* codes, float* scale);
  void (*from_int8)(const std::int8_t* codes, float scale, std::int64_t count, T* to);
};
HONE_KERNELS(QuantizedKernels, quantized_kernels)

}  // namespace hone::ops::cpu
