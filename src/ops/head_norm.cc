// A gated norm by heads: its meaning, its gradient.
#include "ops/head_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/column_sum.h"
#include "ops/kept_sum.h"
#include "ops/passes.h"

namespace hone::ops {
namespace reference {

at::Tensor gated_head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps) {
  const auto type = at::toOpMathType(x_NHK.scalar_type());
  const at::Tensor wide = x_NHK.to(type), away = wide - wide.mean(-1, /*keepdim=*/true);
  const at::Tensor normed = (away * (away.square().mean(-1, /*keepdim=*/true) + eps).rsqrt()).view(gate.sizes());
  return (normed * weight.to(type) * gate.to(type).sigmoid()).to(x_NHK.scalar_type());
}

}  // namespace reference

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

HeadNormed forward_all(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps) {
  const sections::Timed section(sections::Section::elementwise);
  count_bytes({x_NHK, gate, gate});
  return backend_of(x_NHK).norms.head_norm(x_NHK, gate, weight, eps);
}

class HeadNormFunction : public torch::autograd::Function<HeadNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_NHK, const at::Tensor& gate,
                            const at::Tensor& weight, double eps, std::int64_t weight_sum) {
    const HeadNormSaved given{x_NHK.contiguous(), gate.contiguous(), weight.contiguous(), {}, {}};
    const HeadNormed made = forward_all(given.x_NHK, given.gate, given.weight, eps);
    ctx->save_for_backward({given.x_NHK, given.gate, given.weight, made.mean_NH, made.inv_std_NH});
    ctx->saved_data["weight_sum"] = weight_sum;
    return made.y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::elementwise);
    const variable_list kept = ctx->get_saved_variables();
    const HeadNormSaved saved{kept[0], kept[1], kept[2], kept[3], kept[4]};
    const at::Tensor dy = grads[0].contiguous();
    const HeadNormGradients made = backend_of(dy).norms.head_norm_backward(dy, saved);
    count_bytes({dy, saved.x_NHK, saved.gate, made.x_NHK, made.gate});
    GradientSum* sum = to_sum(ctx->saved_data["weight_sum"].toInt());
    return {made.x_NHK, made.gate, row_gradient(made.weight_BO, saved.weight.scalar_type(), sum), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor gated_head_norm(const at::Tensor& x_NHK, const at::Tensor& gate, const at::Tensor& weight, double eps,
                           GradientSum* weight_sum) {
  HONE_ASSERT(x_NHK.dim() == 3 && gate.numel() == x_NHK.numel() && gate.size(-1) == weight.numel());
  HONE_ASSERT(weight.numel() == x_NHK.size(1) * x_NHK.size(2));
  if (x_NHK.numel() == 0 || !backend_for({x_NHK, gate, weight}))
    return reference::gated_head_norm(x_NHK, gate, weight, eps);
  return HeadNormFunction::apply(x_NHK, gate, weight, eps, to_number(weight_sum));
}

}  // namespace hone::ops
