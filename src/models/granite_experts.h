// Routed experts of Granite: the likeliest ones' weights are a softmax over their logits alone.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <memory>

#include "models/expert_stacks.h"
#include "nn/decoding/pre_norm.h"
#include "nn/experts.h"
#include "ops/router.h"

namespace hone::models {

struct GraniteNames {
  const char *gate_up = "input_linear.weight", *down = "output_linear.weight", *router = "router.layer";
};

class GraniteExperts final : public Module {
 public:
  explicit GraniteExperts(const nn::RoutedMlp::Options& options, GraniteNames names = {}) : o(options), n(names) {
    router.weight.set_takes_float8(false);  // a choice that a rounded logit would turn
  }

  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const Tensor x_ND = x_1ND.squeeze(0);
    // The likeliest of all, made to sum to 1, are those of a softmax over their logits alone.
    const ops::Choice choice =
        ops::choose_experts(router(x_ND, pass), {o.per_token, /*normalise=*/true}, /*with_sum=*/pass.training);
    const ops::Routing routing = ops::route(choice.expert_NK, o.experts);
    if (pass.training) nn::measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), o.per_token);
    return ops::routed_mlp(x_ND, choice.weight_NK, routing, experts.each(), o.activation).unsqueeze(0);
  }
  // What the short way of decoding makes (nn/decoding).
  nn::RoutedForm form(const Pass& pass) const {
    return {.router = router.with_adapter(pass),
            .per_token = o.per_token,
            .normalise = true,
            .experts = experts.each(),
            .activation = o.activation};
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.routed = std::make_shared<const nn::RoutedForm>(form(pass));
  }

 private:
  const nn::RoutedMlp::Options o;
  const GraniteNames n;
  ExpertStacks& experts = child<ExpertStacks>("", ExpertStacks::Options{.hidden = o.hidden,
                                                                        .inner = o.inner,
                                                                        .experts = o.experts,
                                                                        .per_token = o.per_token,
                                                                        .std = o.std,
                                                                        .gate_up = n.gate_up,
                                                                        .down = n.down});
  nn::Linear& router = child<nn::Linear>(n.router, o.hidden, o.experts, nn::Linear::Options{.std = o.std});
};

}  // namespace hone::models
