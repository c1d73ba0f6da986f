// Numbers in a byte: the dynamic data type of Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2021
// (arXiv:2110.02861), with a factor for each block.
#pragma once

#include <array>
#include <cstdint>

namespace hone::optim {

inline constexpr std::int64_t kQuantizedBlock = 256;

// The 256 values that a byte stands for, rising, from -1 or 0 to 1.
const std::array<float, 256>& dynamic_values(bool is_signed);

// The byte whose value is nearest to x, which is at most 1 in size; between two the upper one.
[[gnu::always_inline]] inline std::uint8_t nearest_code(float x, const float* __restrict values) {
  int code = 0;
  for (int half = 128; half > 0; half /= 2) code += x >= values[code + half] ? half : 0;
  const int above = code < 255 ? code + 1 : 255;
  return static_cast<std::uint8_t>(x - values[code] >= (values[above] - values[code]) * 0.5f ? above : code);
}

// codes[i] * scale stand for x[i]; returns scale, the largest |x[i]|. At most kQuantizedBlock of them.
[[gnu::always_inline]] inline float quantize(const float* __restrict x, std::int64_t size,
                                             const float* __restrict values, std::uint8_t* __restrict codes) {
  float scale = 1e-12f;
  for (std::int64_t i = 0; i < size; ++i) scale = x[i] > scale ? x[i] : -x[i] > scale ? -x[i] : scale;
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) codes[i] = nearest_code(x[i] / scale, values);
  return scale;
}

}  // namespace hone::optim
