// Noise by counter.
#include "ops/noise.h"

#include <ATen/ATen.h>

#include "ops/reference/table.h"

namespace hone::ops {

at::Tensor even_noise(std::int64_t rows, std::int64_t columns, const DropoutSeed& seed, at::Device device) {
  const DropoutWords words(seed, rows, columns);
  const at::Tensor bits = reference_table::random_bits(words.rows, {0, rows}, words.columns, {0, columns}, device);
  return bits.to(at::kFloat).mul_(0x1p-30).sub_(1);  // of 31 bits
}

}  // namespace hone::ops
