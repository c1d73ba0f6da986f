// Kernel of products of few rows with a weight in four or eight bits: the weight is read from memory as it lies.
#pragma once

#include "ops/cpu/products/skinny.h"
#include "ops/cpu/quantized.h"

namespace hone::ops::cpu {

// A weight's rows, in one of the two ways.
struct QuantizedRows {
  FourBits four{};                    // codes null: the other
  const std::int8_t* int8 = nullptr;  // [outs, in]
  const float* row_scales = nullptr;  // of int8: 127 is that much
};

// Whole numbers are multiplied: x in 16 bits, 64 values with one scale; weights as their codes say, four bits as 1/4095
// of the table's largest value. What that rounds is a hundredth of what the codes have rounded.
template <class T>
struct QuantizedRowKernels {
  // REQUIRES: at most 16 rows, product.quantized. Each output is one sum in a fixed order, as SkinnyKernels'.
  void (*multiply)(const SkinnyProduct<T>& product);
  // As SkinnyKernels'; without x as pack() made it numbers are multiplied one by one.
  std::int64_t (*packed_bytes)(std::int64_t rows, std::int64_t in) = nullptr;
  void (*pack)(const SkinnyProduct<T>& product, void* to) = nullptr;
};
HONE_DOT_KERNELS(QuantizedRowKernels, quantized_row_kernels)

// Whether whole numbers can be multiplied: blocks neither end within 64 numbers of a row, nor rows within such.
inline bool in_chunks(std::int64_t in, std::int64_t block) { return in % 64 == 0 && block % 64 == 0; }

}  // namespace hone::ops::cpu
