// Noise by counter: each number is a function of the seed and of its place alone, as in dropout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/dropout_words.h"

namespace hone::ops {

// Even random numbers of [-1, 1), [rows, columns] in fp32, on this device; rows as the seed counts them.
at::Tensor even_noise(std::int64_t rows, std::int64_t columns, const DropoutSeed& seed, at::Device device);

}  // namespace hone::ops
