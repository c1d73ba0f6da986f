// From values to fp8: times a scale that brings the largest one to the largest of the type, rounded to the nearest.
#include "ops/cuda/kernels/types.h"

using Value = HONE_VALUE;

constexpr int kCastThreads = 256, kCastTile = 64;

// What a value of fp8 is in memory.
using Byte = unsigned char;
enum { kE4m3, kE5m2 };

// Of a type with so many bits of mantissa whose smallest normal number is 2^(1 - bias): to the nearest, of two equally
// near ones to the even; beyond the largest number it stays there, and NaN stays NaN.
template <int kMantissa, int kBias, int kLargest>
HONE_DEVICE Byte narrowed(float x) {
  union {
    float value;
    unsigned bits;
  } both = {x};
  const unsigned sign = both.bits >> 24 & 0x80;
  both.bits &= 0x7fffffffu;
  if (both.value != both.value) return static_cast<Byte>(sign | 0x7f);
  if (both.bits < (127u + 1 - kBias) << 23) {  // below the normal ones: added to a number whose last digit is theirs
    union {
      unsigned bits;
      float value;
    } const digit = {(127u + 1 - kBias + 23 - kMantissa) << 23};
    both.value += digit.value;
    return static_cast<Byte>(sign | (both.bits - digit.bits));
  }
  constexpr int kCut = 23 - kMantissa;
  const unsigned rounded = both.bits + (1u << (kCut - 1)) - 1 + (both.bits >> kCut & 1);
  const unsigned made = (rounded >> kCut) - ((127u - kBias) << kMantissa);
  return static_cast<Byte>(sign | (made < kLargest ? made : kLargest));
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
HONE_DEVICE Byte in_float8(float x, int type) {
  unsigned short both;
  if (type == kE4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
  return static_cast<Byte>(both);
}
#else
HONE_DEVICE Byte in_float8(float x, int type) {
  return type == kE4m3 ? narrowed<3, 7, 0x7e>(x) : narrowed<2, 15, 0x7b>(x);
}
#endif

// By rows the scale is cut to a power of two. most_of_all: the scale where all values are next to nothing.
HONE_DEVICE float scale_for(float largest, int type, int by_rows, float most_of_all) {
  const float most = type == kE4m3 ? 448.0f : 57344.0f;
  union {
    float value;
    unsigned bits;
  } both = {largest < 1e-12f ? most_of_all : most / largest};
  if (by_rows && both.value == both.value) both.bits &= 0x7f800000u;
  return both.value;
}

template <int kCount>
HONE_DEVICE void cast_all(const Value* x, const float* largest, Byte* to, float* inverse, Int rows, Int columns,
                          int type, int by_rows, float most_of_all) {
  const Int packs = columns / kCount;
  for (Int i = static_cast<Int>(blockIdx.x) * kCastThreads + threadIdx.x; i < rows * packs;
       i += static_cast<Int>(gridDim.x) * kCastThreads) {
    const Int row = i / packs;
    const float scale = scale_for(largest[by_rows ? row : 0], type, by_rows, most_of_all);
    const Pack<Value, kCount> from = load<kCount>(x, i);
    Pack<Byte, kCount> made;
    HONE_UNROLL for (int c = 0; c < kCount; ++c)
      made.at[c] = in_float8(static_cast<float>(widened(from.at[c])) * scale, type);
    store<kCount>(to, i, made);
    if (by_rows ? i % packs == 0 : i == 0) inverse[row] = 1 / scale;
  }
}

// x [rows, columns] as it lies; largest: of each row, or one of all.
HONE_KERNEL_OF(kCastThreads)
to_float8(const Value* x, const float* largest, Byte* to, float* inverse, Int rows, Int columns, int type, int by_rows,
          double most_of_all, int wide) {
  if (wide)
    cast_all<Widest<Value>::kCount>(x, largest, to, inverse, rows, columns, type, by_rows,
                                      static_cast<float>(most_of_all));
  else
    cast_all<1>(x, largest, to, inverse, rows, columns, type, by_rows, static_cast<float>(most_of_all));
}

// x^T: [columns, length] with zeros from `rows` on; largest: of each column, or one of all. A block for 64 x 64 of x:
// x goes along its columns, y along its rows.
HONE_KERNEL_OF(kCastThreads)
to_float8_turned(const Value* x, const float* largest, Byte* to, float* inverse, Int rows, Int columns, Int length,
                 int type, int by_rows, double most_of_all) {
  __shared__ Byte tile[kCastTile][kCastTile + 4];  // of a column, its rows
  constexpr int kAtOnce = kCastThreads / kCastTile;
  const Int first_row = static_cast<Int>(blockIdx.y) * kCastTile, first = static_cast<Int>(blockIdx.x) * kCastTile;
  const int lane = static_cast<int>(threadIdx.x) % kCastTile, line = static_cast<int>(threadIdx.x) / kCastTile;
  const Int column = first + lane;
  if (column < columns) {
    const float scale = scale_for(largest[by_rows ? column : 0], type, by_rows, static_cast<float>(most_of_all));
    for (int r = line; r < kCastTile; r += kAtOnce) {
      const Int row = first_row + r;
      tile[lane][r] =
          row < rows ? in_float8(static_cast<float>(widened(x[row * columns + column])) * scale, type) : Byte{0};
    }
    if (first_row == 0 && line == 0 && (by_rows || column == 0)) inverse[by_rows ? column : 0] = 1 / scale;
  }
  __syncthreads();
  for (int c = line; c < kCastTile; c += kAtOnce)
    if (first + c < columns && first_row + lane < length) to[(first + c) * length + first_row + lane] = tile[c][lane];
}
