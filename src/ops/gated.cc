// act(gate) * up: its meaning, its gradient.
#include "ops/gated.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "hone/error.h"
#include "ops/backend.h"
#include "ops/passes.h"

namespace hone::ops {
namespace {

at::Tensor forward_all(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  const sections::Timed section(sections::Section::elementwise);
  at::Tensor y = backend_of(gate).elementwise.gated(gate, up, activation);
  count_bytes({gate, up, y});
  return y;
}

class GatedFunction : public torch::autograd::Function<GatedFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up,
                            std::int64_t activation) {
    const at::Tensor g = gate.contiguous(), u = up.contiguous();
    ctx->save_for_backward({g, u});
    ctx->saved_data["activation"] = activation;
    return forward_all(g, u, static_cast<Activation>(activation));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const GatedGradients made = gated_backward(grads[0], saved[0], saved[1], activation);
    return {made.gate, made.up, at::Tensor()};
  }
};

}  // namespace

namespace reference {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::silu:
      return at::silu(x);
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::relu:
      return at::relu(x);
  }
  throw Error(ErrorKind::bug, "unknown activation");
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  const auto wide = at::toOpMathType(gate.scalar_type());
  return (activate(gate.to(wide), activation) * up.to(wide)).to(gate.scalar_type());
}

}  // namespace reference

GatedGradients gated_backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up, Activation activation,
                              GatedWish wish) {
  const sections::Timed section(sections::Section::elementwise);
  const GatedGradients made = backend_of(gate).elementwise.gated_backward(dy, gate, up, activation, wish);
  count_bytes({dy, gate, up, gate, up});
  if (wish.inner) count_bytes({made.inner});
  return made;
}

at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Activation activation) {
  const bool fits = gate.numel() > 0 && gate.sizes() == up.sizes() && backend_for({gate, up});
  if (!fits) return reference::gated(gate, up, activation);
  if (!at::GradMode::is_enabled()) return forward_all(gate, up, activation);
  return GatedFunction::apply(gate, up, static_cast<std::int64_t>(activation));
}

}  // namespace hone::ops
