// Into fewer bits, and back. The arithmetic is bitsandbytes', whose files these are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/quantized_matrix.h"

namespace hone::ops {

inline constexpr std::int64_t kQuantBlock = 64, kScaleBlock = 256;
std::vector<float> quant_table(QuantType type);  // nf4 or fp4: 16 values
std::vector<float> scale_table();                // 256 values from -1 to 1, dense around 0

std::uint64_t quantized_bytes(const std::vector<std::int64_t>& shape, QuantizedAs as);

// REQUIRES: two dimensions, fp32, fp64, bf16 or fp16. Error(checkpoint), to be said where: a value is not finite. Of
// the meta device: what takes as much.
std::shared_ptr<const Quantized> quantize(const at::Tensor& weight_OI, QuantizedAs as);

// Writes what it stands for, in `to`'s type. REQUIRES: of its shape and device, contiguous. Nothing notices that `to`
// has changed.
void dequantize_into(const Quantized& quantized, const at::Tensor& to);
at::Tensor dequantize(const Quantized& quantized, at::ScalarType type);

}  // namespace hone::ops
