// Hy3 (Tencent, 2026): Qwen3's attention, and experts that corrected sigmoids choose, beside a shared one.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct HyV3Config : GroupedConfig {
  using Base = GroupedConfig;
  std::optional<std::int64_t> num_experts, num_shared_experts, expert_hidden_dim;
  std::optional<double> router_scaling_factor;
  bool enable_moe_fp32_combine = true, qk_norm = true, route_norm = true;

  static constexpr auto fields() {
    using C = HyV3Config;
    constexpr config::Range count{.low = 1, .high = 65536};
    constexpr const char* only_true = "Only true.";
    return std::tuple_cat(
        GroupedConfig::fields(),
        std::tuple{field("num_experts", &C::num_experts, "Experts of a layer; default 192.", count),
                   field("num_shared_experts", &C::num_shared_experts,
                         "How many times as wide as an expert the MLP is that every token goes to; default 1.", count),
                   field("expert_hidden_dim", &C::expert_hidden_dim, "moe_intermediate_size by another name.",
                         config::Range{.low = 1, .high = 2147483647}),
                   field("router_scaling_factor", &C::router_scaling_factor,
                         "What the weights of a token's experts are multiplied by; default 2.826.",
                         config::Range{.low = 1e-9, .high = 1e9}),
                   field("enable_moe_fp32_combine", &C::enable_moe_fp32_combine,
                         "No effect: a sum of two is rounded once, in whichever precision it is made."),
                   field("qk_norm", &C::qk_norm, only_true), field("route_norm", &C::route_norm, only_true)});
  }
  void validate(Problems& problems) const;
};

// DeepSeek's names of what has others here.
HyV3Config renamed(const HyV3Config& given) {
  HyV3Config c = given;
  c.n_routed_experts = given.num_experts, c.n_shared_experts = given.num_shared_experts;
  c.routed_scaling_factor = given.router_scaling_factor;
  return c;
}

void check_hy_keys(const HyV3Config& given, const GroupedExperts& e, Problems& problems) {
  refuse_keys(given.model_type,
              {{"n_routed_experts", given.n_routed_experts.has_value()},
               {"n_shared_experts", given.n_shared_experts.has_value()},
               {"routed_scaling_factor", given.routed_scaling_factor.has_value()},
               {"norm_topk_prob", !given.norm_topk_prob.value_or(true)},
               {"n_group", given.n_group.value_or(1) != 1},
               {"topk_group", given.topk_group.value_or(1) != 1}},
              problems);
  const char* reason = "got false, expected true, as transformers has it";
  problems.require(given.qk_norm, "qk_norm", reason), problems.require(given.route_norm, "route_norm", reason);
  const std::int64_t named = given.expert_hidden_dim.value_or(e.inner);
  problems.require(
      named == e.inner, "expert_hidden_dim",
      fmt::format("got {}, expected moe_intermediate_size ({}), which alone is read in transformers", named, e.inner));
}

GroupedShape resolve(const HyV3Config& given, Problems& problems) {
  const HyV3Config c = renamed(given);
  GroupedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  s.experts = read_grouped_experts(c, s, problems);
  check_hy_keys(given, s.experts, problems);
  s.experts.shared_bias = s.mlp_bias;
  s.experts.router_name = "", s.experts.shared_name = "shared_mlp";
  s.experts.router.weight = "router.gate.weight", s.experts.router.correction = "expert_bias";
  return s;
}

void HyV3Config::validate(Problems& problems) const { resolve(*this, problems); }

class HyV3 final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  HyV3(const HyV3Config& config, const HeadRequest& head) : GroupedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    const HyV3Config& c = config_;
    config::Node node = to_hf_config(c, s, dtype());
    write_grouped_experts(renamed(c), s.experts, node);
    std::erase_if(node.entries(), [](const auto& entry) {
      return entry.first == "norm_topk_prob" || entry.first == "routed_scaling_factor";
    });
    node.at_or_add("router_scaling_factor") = nn::hf_float(s.experts.router.rule.scale);
    node.at_or_add("enable_moe_fp32_combine") = config::Values<bool>::write(c.enable_moe_fp32_combine);
    // What others read: vLLM takes these, and how many layers have an MLP, by other names.
    if (c.expert_hidden_dim) {
      node.at_or_add("expert_hidden_dim") = config::Values<std::int64_t>::write(s.experts.inner);
      node.at_or_add("qk_norm") = node.at_or_add("route_norm") = config::Values<bool>::write(true);
    }
    if (c.first_k_dense_replace)
      node.at_or_add("first_k_dense_replace") = config::Values<std::int64_t>::write(*c.first_k_dense_replace);
    sort_keys(node);
    return node;
  }

 private:
  HyV3Config config_;
};

}  // namespace

void register_hy_v3(Registries& hone) {
  hone.models.add<HyV3, HyV3Config>("hy_v3", "Hy3: Qwen3's attention, experts that corrected sigmoids choose.");
}

}  // namespace hone::models
