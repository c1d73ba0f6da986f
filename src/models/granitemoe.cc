// Granite 3 with experts (IBM, 2024; granite-3.0-1b-a400m and its like): Granite whose layers have routed experts in
// place of the MLP.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/expert_stacks.h"
#include "models/granite_keys.h"
#include "models/local_experts.h"
#include "models/routed_model.h"
#include "ops/router.h"

namespace hone::models {
namespace {

struct GraniteMoeConfig : LocalExpertKeys<GraniteKeys> {
  using Base = LocalExpertKeys<GraniteKeys>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};

RoutedShape resolve(const GraniteMoeConfig& c, Problems& problems) {
  RoutedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  read_multipliers(c, s);
  const LocalExperts experts = read_local_experts(c, {.count = 8, .per_token = 2}, s, problems);
  s.mlp_name = "block_sparse_moe";
  s.experts = local_mlp(experts, s), s.balance = experts.balance;
  return s;
}

void GraniteMoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class GraniteExperts final : public Module {
 public:
  explicit GraniteExperts(const nn::RoutedMlp::Options& options) : o(options) {
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

 private:
  const nn::RoutedMlp::Options o;
  ExpertStacks& experts = child<ExpertStacks>("", ExpertStacks::Options{.hidden = o.hidden,
                                                                        .inner = o.inner,
                                                                        .experts = o.experts,
                                                                        .per_token = o.per_token,
                                                                        .std = o.std,
                                                                        .gate_up = "input_linear.weight",
                                                                        .down = "output_linear.weight"});
  nn::Linear& router = child<nn::Linear>("router.layer", o.hidden, o.experts, nn::Linear::Options{.std = o.std});
};

class GraniteMoe final : public RoutedModel<PreNormBlock<RoutedShape, GraniteExperts>> {
 public:
  GraniteMoe(const GraniteMoeConfig& config, const HeadRequest& head)
      : RoutedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_multipliers(config_, node);
    write_local_experts(config_, {s.experts.experts, s.experts.per_token}, node);
    sort_keys(node);
    return node;
  }

 private:
  GraniteMoeConfig config_;
};

}  // namespace

void register_granitemoe(Registries& hone) {
  hone.models.add<GraniteMoe, GraniteMoeConfig>("granitemoe", "Granite with routed experts.");
}

}  // namespace hone::models
