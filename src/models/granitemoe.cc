// Granite 3 with experts (IBM, 2024; granite-3.0-1b-a400m and its like): Granite whose layers have routed experts in
// place of the MLP.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/granite_experts.h"
#include "models/granite_keys.h"
#include "models/local_experts.h"
#include "models/routed_model.h"

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
