// Gemma 4's routed experts, which stand beside the MLP of a layer, and the router that chooses them.
//
// Letters in tensor names: N tokens, D hidden, E experts, K experts of a token.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include "models/expert_stacks.h"
#include "models/gemma4_config.h"
#include "nn/experts.h"
#include "ops/experts.h"
#include "ops/rms_norm.h"
#include "ops/router.h"

namespace hone::models {

// Chooses the likeliest experts; each has a factor of its own besides.
class Gemma4Router final : public Module {
 public:
  explicit Gemma4Router(const Gemma4Shape& shape) : s(shape) { proj.weight.set_takes_float8(false); }

  ops::Choice operator()(const Tensor& x_ND, Pass& pass) const {
    const Tensor normed_ND = ops::rms_norm(x_ND, scale.use(), s.eps, scale.gradient_sum());
    ops::Choice choice = ops::choose_experts(proj(normed_ND / std::sqrt(static_cast<double>(s.hidden)), pass),
                                             {s.experts_per_token, /*normalise=*/true}, /*with_sum=*/pass.training);
    choice.weight_NK = choice.weight_NK * factors(choice);
    return choice;
  }

 private:
  // By a product of zeros and ones: its gradient is one, too, whose sums have an order of their own on every device.
  Tensor factors(const ops::Choice& choice) const {
    const Tensor experts_E = at::arange(s.experts, choice.expert_NK.options());
    const at::ScalarType wide = choice.weight_NK.scalar_type();
    return (choice.expert_NK.unsqueeze(-1) == experts_E).to(wide).matmul(per_expert_scale.use().to(wide));
  }

  const Gemma4Shape& s;
  nn::Linear& proj = child<nn::Linear>("proj", s.hidden, s.experts, nn::Linear::Options{.std = s.std});
  Weight& scale = parameter("scale", {s.hidden}, {.kind = Init::Kind::ones});
  Weight& per_expert_scale = parameter("per_expert_scale", {s.experts}, {.kind = Init::Kind::ones});
};

// A child without a name: its weights are the layer's.
class Gemma4Experts final : public Module {
 public:
  explicit Gemma4Experts(const Gemma4Shape& shape) : s(shape) {}

  // dense: what the MLP makes; x: what its norm reads.
  Tensor beside(const Tensor& dense_1ND, const Tensor& x_1ND, Pass& pass) const {
    const Tensor x_ND = x_1ND.squeeze(0);
    const ops::Choice choice = router(x_ND, pass);
    const ops::Routing routing = ops::route(choice.expert_NK, s.experts);
    if (pass.training)
      nn::measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), s.experts_per_token);
    const Tensor made_ND =
        ops::routed_mlp(pre_feedforward_layernorm_2(x_ND), choice.weight_NK, routing, experts.each(), s.activation);
    return post_feedforward_layernorm_1(dense_1ND) + post_feedforward_layernorm_2(made_ND).unsqueeze(0);
  }

 private:
  nn::RmsNorm& norm(const char* name) { return child<nn::RmsNorm>(name, s.hidden, s.norm()); }

  const Gemma4Shape& s;
  Gemma4Router& router = child<Gemma4Router>("router", s);
  ExpertStacks& experts = child<ExpertStacks>("experts", ExpertStacks::Options{.hidden = s.hidden,
                                                                               .inner = s.expert_inner,
                                                                               .experts = s.experts,
                                                                               .per_token = s.experts_per_token,
                                                                               .std = s.std});
  nn::RmsNorm& post_feedforward_layernorm_1 = norm("post_feedforward_layernorm_1");
  nn::RmsNorm& post_feedforward_layernorm_2 = norm("post_feedforward_layernorm_2");
  nn::RmsNorm& pre_feedforward_layernorm_2 = norm("pre_feedforward_layernorm_2");
};

}  // namespace hone::models
