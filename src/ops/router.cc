#include "ops/router.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/sections.h"
#include "ops/backend.h"
#include "ops/column_sum.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// weight_NK, expert_NK, and the sum where it is wanted.
class ChooseFunction : public torch::autograd::Function<ChooseFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& logits_NE, std::int64_t per_token,
                               bool normalise, bool with_sum) {
    const sections::Timed section(sections::Section::elementwise);
    const Backend& table = backend_of(logits_NE);
    const RoutedChoice made = table.routed.choose(logits_NE, {per_token, normalise});
    ctx->save_for_backward({made.probability_NE, made.weight_NK, made.expert_NK});
    ctx->mark_non_differentiable({made.expert_NK});
    ctx->set_materialize_grads(false);
    ctx->saved_data["per_token"] = per_token, ctx->saved_data["normalise"] = normalise;
    ctx->saved_data["type"] = logits_NE.scalar_type();
    variable_list results{made.weight_NK, made.expert_NK};
    if (with_sum) results.push_back(column_sum(made.probability_NE));
    return results;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const sections::Timed section(sections::Section::elementwise);
    const at::Tensor dsum_E = grads.size() > 2 ? grads[2] : at::Tensor();
    if (!grads[0].defined() && !dsum_E.defined()) return variable_list(4);
    const variable_list saved = ctx->get_saved_variables();
    const ChoiceOptions options{ctx->saved_data["per_token"].toInt(), ctx->saved_data["normalise"].toBool()};
    return {backend_of(saved[0]).routed.choose_backward({saved[0], saved[1], saved[2]}, options, grads[0], dsum_E,
                                                        ctx->saved_data["type"].toScalarType()),
            {}, {}, {}};
  }
};

}  // namespace

namespace reference {

Choice choose_experts(const at::Tensor& logits_NE, const ChoiceOptions& options, bool with_sum) {
  const RoutedChoice made = reference_backend().routed.choose(logits_NE, options);
  return {made.weight_NK, made.expert_NK, with_sum ? made.probability_NE.sum(0) : at::Tensor()};
}

}  // namespace reference

Choice choose_experts(const at::Tensor& logits_NE, const ChoiceOptions& options, bool with_sum) {
  if (logits_NE.numel() == 0 || !backend_for({logits_NE}))
    return reference::choose_experts(logits_NE, options, with_sum);
  const variable_list made = ChooseFunction::apply(logits_NE, options.per_token, options.normalise, with_sum);
  return {made[0], made[1], with_sum ? made[2] : at::Tensor()};
}

at::Tensor measure_spread(const at::Tensor& begin_E1, double weight) {
  return table_of(begin_E1.device().type()).routed.spread(begin_E1, weight);
}

}  // namespace hone::ops
