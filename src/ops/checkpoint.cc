// Gradient checkpointing as one autograd function.
#include "ops/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Run = std::function<variable_list(const at::Tensor&)>;

struct Holder : torch::CustomClassHolder {
  explicit Holder(std::shared_ptr<Run> made) : run(std::move(made)) {}
  std::shared_ptr<Run> run;
};

class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  // `anchor` asks for a gradient, so that the weights get theirs even when x needs none.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& anchor,
                               const std::shared_ptr<Run>& run) {
    (void)anchor;
    ctx->save_for_backward({x});
    ctx->set_materialize_grads(false);
    ctx->saved_data["needs_x"] = x.requires_grad();
    ctx->saved_data["run"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(run));
    const at::NoGradGuard no_graph;
    return (*run)(x.detach());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto run = c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["run"].toCapsule())->run;
    const bool needs_x = ctx->saved_data["needs_x"].toBool();
    const at::AutoGradMode with_graph(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_(needs_x);
    const variable_list outputs = (*run)(x);
    TORCH_CHECK(outputs.size() == grads.size(), "a checkpointed function gave ", grads.size(), " outputs, then ",
                outputs.size());
    variable_list ends, ends_grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !grads[i].defined()) continue;
      ends.push_back(outputs[i]);
      ends_grads.push_back(grads[i]);
    }
    if (!ends.empty()) torch::autograd::backward(ends, ends_grads);
    return {needs_x ? x.grad() : at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> checkpoint(std::function<std::vector<at::Tensor>(const at::Tensor&)> run, const at::Tensor& x) {
  if (!at::GradMode::is_enabled()) return run(x);
  const at::Tensor anchor = at::zeros({0}, x.options().dtype(at::kFloat)).requires_grad_(true);
  return CheckpointFunction::apply(x, anchor, std::make_shared<Run>(std::move(run)));
}

at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> run, const at::Tensor& x) {
  const auto one = [run = std::move(run)](const at::Tensor& input) { return std::vector<at::Tensor>{run(input)}; };
  return checkpoint(std::function<std::vector<at::Tensor>(const at::Tensor&)>(one), x)[0];
}

}  // namespace hone::ops
