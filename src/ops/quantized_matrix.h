// A matrix in fewer bits, as bitsandbytes lays it out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "hone/quantization.h"

namespace hone::ops {

// Numbers are in the order of the matrix, one row behind another, whatever its rows: a block may reach from one into
// the next.
struct Quantized {
  QuantizedAs as;
  std::vector<std::int64_t> shape = {};  // [O, I]
  // Four bits: uint8, two numbers each, the first in the high half. int8: [O, I].
  at::Tensor codes = {};
  at::Tensor table = {};  // fp32 [16]: what the four bits mean, to be multiplied by the block's scale; int8: undefined
  // fp32. Of each block the largest value; of int8 that of each row, which is 127. With double_quant what scale_codes
  // mean is to be multiplied by, one for kScaleBlock of them.
  at::Tensor scales = {};
  at::Tensor scale_codes = {}, scale_table = {};  // uint8, fp32 [256]; double_quant alone
  float scale_offset = 0;                         // is added to each scale then
  std::int64_t block = 64;

  std::int64_t numel() const;
  std::uint64_t bytes() const;  // that it takes, without tables, which many have in common
  std::shared_ptr<const Quantized> on(at::Device device) const;
};

}  // namespace hone::ops
