// Gradient checkpointing as one autograd function.
#include "ops/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Run = std::function<variable_list(const variable_list&)>;

thread_local bool computed_again = false;

struct Holder : torch::CustomClassHolder {
  explicit Holder(std::shared_ptr<Run> made) : run(std::move(made)) {}
  std::shared_ptr<Run> run;
};

class ComputedAgain {
 public:
  ComputedAgain() { computed_again = true; }
  ~ComputedAgain() { computed_again = before_; }
  ComputedAgain(const ComputedAgain&) = delete;

 private:
  const bool before_ = computed_again;
};

class CheckpointFunction : public torch::autograd::Function<CheckpointFunction> {
 public:
  // The last of `inputs` asks for a gradient, so that the weights get theirs even when no other needs one.
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const std::shared_ptr<Run>& run) {
    const at::TensorList given = inputs.slice(0, inputs.size() - 1);
    ctx->save_for_backward(given.vec());
    ctx->set_materialize_grads(false);
    ctx->saved_data["run"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(run));
    const at::NoGradGuard no_graph;
    variable_list detached;
    for (const at::Tensor& x : given) detached.push_back(x.detach());
    const ComputedAgain now;
    return (*run)(detached);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto run = c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["run"].toCapsule())->run;
    const at::AutoGradMode with_graph(true);
    variable_list inputs;
    for (const at::Tensor& x : ctx->get_saved_variables())
      inputs.push_back(x.detach().requires_grad_(ctx->needs_input_grad(inputs.size())));
    const variable_list outputs = (*run)(inputs);
    TORCH_CHECK(outputs.size() == grads.size(), "a checkpointed function gave ", grads.size(), " outputs, then ",
                outputs.size());
    variable_list ends, ends_grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !grads[i].defined()) continue;
      ends.push_back(outputs[i]);
      ends_grads.push_back(grads[i]);
    }
    if (!ends.empty()) torch::autograd::backward(ends, ends_grads);
    variable_list made;
    for (const at::Tensor& x : inputs) made.push_back(x.grad());
    made.resize(inputs.size() + 2);  // of the last input, and of what is no tensor
    return made;
  }
};

}  // namespace

bool is_computed_again() { return computed_again; }

std::vector<at::Tensor> checkpoint(std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> run,
                                   const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return run(inputs);
  variable_list all = inputs;
  all.push_back(at::zeros({0}, inputs[0].options().dtype(at::kFloat)).requires_grad_(true));
  return CheckpointFunction::apply(at::TensorList(all), std::make_shared<Run>(std::move(run)));
}

std::vector<at::Tensor> checkpoint(std::function<std::vector<at::Tensor>(const at::Tensor&)> run, const at::Tensor& x) {
  const auto of_one = [run = std::move(run)](const variable_list& inputs) { return run(inputs[0]); };
  return checkpoint(Run(of_one), variable_list{x});
}

at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> run, const at::Tensor& x) {
  const auto one = [run = std::move(run)](const at::Tensor& input) { return std::vector<at::Tensor>{run(input)}; };
  return checkpoint(std::function<std::vector<at::Tensor>(const at::Tensor&)>(one), x)[0];
}

}  // namespace hone::ops
