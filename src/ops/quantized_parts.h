// A quantized matrix as kernels see it.
#pragma once

#include "ops/cpu/products/quantized_rows.h"
#include "ops/cpu/quantized.h"
#include "ops/quantized_matrix.h"

namespace hone::ops {

// REQUIRES: on the CPU. Good as long as q is.
cpu::FourBits four_bits(const Quantized& q);  // REQUIRES: nf4 or fp4
cpu::QuantizedRows quantized_rows(const Quantized& q);

}  // namespace hone::ops
