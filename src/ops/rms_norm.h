// Root-mean-square normalisation of the last dimension (Zhang and Sennrich, 2019).
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::ops {

// x / sqrt(mean(x^2) + eps) * weight over the last dimension. Summed in fp32 at least; for bf16 the normalised value is
// rounded before it is multiplied by weight, as transformers does.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// sum = x + residual; normed = rms_norm(sum). One pass for the two.
struct AddRmsNorm {
  at::Tensor sum, normed;
};
AddRmsNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);

namespace reference {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
AddRmsNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);
}  // namespace reference

}  // namespace hone::ops
