// An autograd function of two calls.
#include "ops/with_adjoint.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using OfTensors = std::function<Tensors(const Tensors&)>;

struct CallHolder : torch::CustomClassHolder {
  explicit CallHolder(OfTensors given) : call(std::move(given)) {}
  OfTensors call;
};

class WithAdjoint : public torch::autograd::Function<WithAdjoint> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const OfTensors& there,
                               const c10::intrusive_ptr<CallHolder>& back) {
    ctx->saved_data["back"] = c10::IValue::make_capsule(back);
    return there(inputs.vec());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const c10::NoGradGuard no_grad;
    const auto back = c10::static_intrusive_pointer_cast<CallHolder>(ctx->saved_data["back"].toCapsule());
    variable_list made = back->call(grads);
    made.emplace_back();  // of the two calls
    made.emplace_back();
    return made;
  }
};

}  // namespace

Tensors with_adjoint(const Tensors& inputs, const OfTensors& there, OfTensors back) {
  if (!at::GradMode::is_enabled()) return there(inputs);
  return WithAdjoint::apply(at::TensorList(inputs), there, c10::make_intrusive<CallHolder>(std::move(back)));
}

}  // namespace hone::ops
