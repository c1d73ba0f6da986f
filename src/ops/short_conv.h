// A short causal convolution of each channel on its own, with silu behind it (Mamba's and gated delta net's) or not
// (LFM2's).
//
//   y_t = silu(bias[c] + sum over j of weight[c, j] x[t - (taps - 1) + j, c]),   x = 0 before the document begins
//
// Letters: N tokens, C channels, T taps, R rows of a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/gradient_sum.h"
#include "ops/documents.h"
#include "ops/primitives.h"

namespace hone::ops {

struct ShortConvSums {  // take the gradients
  GradientSum *weight = nullptr, *bias = nullptr;
};
// [N,C], of x's type; summed in fp32 at least. Rows outside all documents are 0.
at::Tensor short_conv(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents,
                      const ShortConvSums& sums = {});

// Of documents that go on with the last T - 1 tokens before them, newest_RTC [R, T-1, C], which become theirs; rows: of
// each document. No gradient.
at::Tensor short_conv_on(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents,
                         const at::Tensor& newest_RTC, const std::vector<std::int64_t>& rows);

namespace reference {
at::Tensor short_conv(const at::Tensor& x_NC, const ShortConvWeights& weights, const Documents& documents);
}  // namespace reference

}  // namespace hone::ops
