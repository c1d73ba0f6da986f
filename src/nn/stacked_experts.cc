// Experts whose weights lie in one tensor each.
#include "nn/stacked_experts.h"

#include <ATen/ATen.h>

#include <memory>
#include <utility>

#include "nn/decoding/pre_norm.h"
#include "nn/experts.h"
#include "ops/router.h"
#include "ops/stacked_experts.h"

namespace hone::nn {

StackedMlp::Experts::Experts(const Options& o)
    : gate_up(stack("gate_up_proj", o.hidden, 2 * o.inner, o)),
      gate_up_bias(bias("gate_up_proj_bias", 2 * o.inner, o)),
      down(stack("down_proj", o.inner, o.hidden, o)),
      down_bias(bias("down_proj_bias", o.hidden, o)) {}

Weight& StackedMlp::Experts::stack(const char* name, std::int64_t in, std::int64_t out, const Options& o) {
  Weight& made = parameter(name, {o.experts, in, out}, {.std = o.std});
  made.set_use(WeightUse::stack_in_out);
  made.set_share_of_tokens(static_cast<double>(o.per_token) / static_cast<double>(o.experts));
  return made;
}

Weight& StackedMlp::Experts::bias(const char* name, std::int64_t out, const Options& o) {
  return parameter(name, {o.experts, out}, {.kind = Init::Kind::zeros}, /*decays=*/false);
}

StackedMlp::StackedMlp(const Options& options)
    : options_(options),
      router_(child<Linear>("router", options.hidden, options.experts,
                            Linear::Options{.bias = true,
                                            .std = options.std,
                                            .fresh_bias = {.kind = Init::Kind::normal, .std = options.std}})),
      experts_(child<Experts>("experts", options)) {
  router_.weight.set_takes_float8(false);  // a choice that a rounded logit would turn
}

Tensor StackedMlp::operator()(const Tensor& x_1ND, Pass& pass) const {
  const Tensor x_ND = x_1ND.squeeze(0);
  // The likeliest of all, made to sum to 1, are those of a softmax over their logits alone.
  const ops::Choice choice =
      ops::choose_experts(router_(x_ND, pass), {options_.per_token, /*normalise=*/true}, /*with_sum=*/pass.training);
  const ops::Routing routing = ops::route(choice.expert_NK, options_.experts);
  if (pass.training) measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), options_.per_token);
  const ops::StackedExperts experts = experts_.weights(options_.gate);
  return ops::stacked_mlp(x_ND, choice.weight_NK, choice.expert_NK, routing, experts).unsqueeze(0);
}

ops::StackedExperts StackedMlp::Experts::weights(const ops::ClampedGate& gate) const {
  return {gate_up.use(),          gate_up_bias.use(),  down.use(), down_bias.use(),
          gate_up.gradient_sum(), down.gradient_sum(), gate};
}

void StackedMlp::describe(PreNormLayer& layer, const Pass& pass) const {
  RoutedForm form{.router = router_.with_adapter(pass), .per_token = options_.per_token, .normalise = true};
  form.stacked = experts_.weights(options_.gate);
  layer.routed = std::make_shared<const RoutedForm>(std::move(form));
}

}  // namespace hone::nn
