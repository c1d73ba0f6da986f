// Root-mean-square normalisation of the last dimension (Zhang and Sennrich, 2019).
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/gradient_sum.h"
#include "hone/op_options.h"
#include "ops/add_norm.h"
#include "ops/primitives.h"

namespace hone::ops {

// x / sqrt(mean(x^2) + eps) * weight over the last dimension. Summed in fp32 at least; for bf16 the normalised value is
// rounded before it is multiplied, or not, as the form says. gradient_sum takes the weight's gradient; null: autograd
// does.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, RmsNormForm form,
                    GradientSum* gradient_sum = nullptr);

// sum = x + residual (x itself where that is undefined); normed = rms_norm(sum). One pass for the two.
AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form,
                     GradientSum* gradient_sum = nullptr);

// For ops that contain the norm, outside autograd. residual may be undefined: then `sum` is x.
RmsNormed rms_norm_forward(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form);

// From dy, the gradient of `normed`, and `extra`, that of `sum` by other ways (undefined: none). Of what was saved, the
// sum and inv_rms. The weight's gradient is undefined where `gradient_sum` has taken it.
struct RmsNormGradients {
  at::Tensor x, weight;
};
RmsNormGradients rms_norm_backward(const at::Tensor& dy, const at::Tensor& extra, const RmsNormed& saved,
                                   const at::Tensor& weight, RmsNormForm form, GradientSum* gradient_sum = nullptr);

namespace reference {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, RmsNormForm form);
AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, RmsNormForm form);
}  // namespace reference

}  // namespace hone::ops
