// What weights in few bits stand for, as ops/quantized_matrix.h has them.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;
using Wide = WideOf<Value>::type;

using Byte = unsigned char;

// Each rounding by itself, as on the host.
HONE_DEVICE float times(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
HONE_DEVICE float plus(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

template <int kCount>
HONE_DEVICE void from_four_bits_all(const Byte* codes, const float* table, const float* scales, const Byte* scale_codes,
                                    const float* scale_table, float offset, Int count, int block, Value* to) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < (count + kCount - 1) / kCount; i += step) {
    Pack<Value, kCount> made;
    HONE_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const Int at = i * kCount + k, part = at >> block;
      const float scale = scale_codes ? plus(times(scale_table[scale_codes[part]], scales[part >> 8]), offset)
                                      : scales[part];
      const int both = codes[at >> 1];
      made.at[k] = rounded<Value>(static_cast<Wide>(times(table[at & 1 ? both & 15 : both >> 4], scale)));
    }
    store<kCount>(to, i, made);
  }
}

// block: its logarithm. scale_codes null: scales are what they are.
HONE_KERNEL from_four_bits(const Byte* codes, const float* table, const float* scales, const Byte* scale_codes,
                           const float* scale_table, double offset, Int count, int block, Value* to, int wide) {
  const float own = static_cast<float>(offset);
  wide ? from_four_bits_all<Widest<Value>::kCount>(codes, table, scales, scale_codes, scale_table, own, count, block,
                                                   to)
       : from_four_bits_all<1>(codes, table, scales, scale_codes, scale_table, own, count, block, to);
}

// A block of threads for a row.
HONE_KERNEL from_int8(const signed char* codes, const float* scales, Int columns, Value* to) {
  const Int row = blockIdx.x;
  const float scale = times(scales[row], 1.0f / 127.0f);
  for (Int i = row * columns + threadIdx.x; i < (row + 1) * columns; i += blockDim.x)
    to[i] = rounded<Value>(static_cast<Wide>(times(static_cast<float>(codes[i]), scale)));
}
