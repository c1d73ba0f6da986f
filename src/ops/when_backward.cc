// An autograd function that changes nothing.
#include "ops/when_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ActHolder : torch::CustomClassHolder {
  explicit ActHolder(std::function<void()> given) : act(std::move(given)) {}
  std::function<void()> act;
};

class WhenBackwardFunction : public torch::autograd::Function<WhenBackwardFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<ActHolder>& act) {
    ctx->saved_data["act"] = c10::IValue::make_capsule(act);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    c10::static_intrusive_pointer_cast<ActHolder>(ctx->saved_data["act"].toCapsule())->act();
    return {grads[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor when_backward(const at::Tensor& x, std::function<void()> act) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return x;
  return WhenBackwardFunction::apply(x, c10::make_intrusive<ActHolder>(std::move(act)));
}

}  // namespace hone::ops
