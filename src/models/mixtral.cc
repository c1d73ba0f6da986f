// Mixtral (Jiang et al., 2024, arXiv:2401.04088): Mistral whose layers have routed experts in place of the MLP.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/local_experts.h"
#include "models/routed_model.h"

namespace hone::models {
namespace {

struct MixtralConfig : LocalExpertKeys<LlamaConfig> {
  using Base = LocalExpertKeys<LlamaConfig>;
  double router_jitter_noise = 0;

  static constexpr auto fields() {
    using C = MixtralConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("router_jitter_noise", &C::router_jitter_noise, "Noise on what the router reads; only 0.")});
  }
  void validate(Problems& problems) const;
};

RoutedShape resolve(const MixtralConfig& c, Problems& problems) {
  RoutedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(c.router_jitter_noise == 0, "router_jitter_noise", "got a number above 0, expected 0");
  const LocalExperts experts = read_local_experts(c, {.count = 8, .per_token = 2}, s, problems);
  s.mlp_name = "block_sparse_moe";
  s.experts = local_mlp(experts, s), s.balance = experts.balance;
  return s;
}

void MixtralConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Mixtral final : public RoutedModel<> {
 public:
  Mixtral(const MixtralConfig& config, const HeadRequest& head)
      : RoutedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_local_experts(config_, {s.experts.experts, s.experts.per_token}, node);
    node.at_or_add("router_jitter_noise") = config::Values<double>::write(config_.router_jitter_noise);
    if (!config_.head_dim) node.at_or_add("head_dim") = config::Node();  // as transformers leaves it
    sort_keys(node);
    return node;
  }

 private:
  MixtralConfig config_;
};

}  // namespace

void register_mixtral(Registries& hone) {
  hone.models.add<Mixtral, MixtralConfig>("mixtral", "Mistral with routed experts.");
}

}  // namespace hone::models
