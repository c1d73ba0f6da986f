// K-EXAONE (LG AI Research, 2026): EXAONE 4's attention, and DeepSeek-V3's experts.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/exaone_keys.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct ExaoneMoeConfig : ExaoneKeys<GroupedConfig> {
  using Base = ExaoneKeys<GroupedConfig>;
  std::optional<std::int64_t> num_experts, num_shared_experts;
  std::optional<std::vector<bool>> is_moe_layer;

  static constexpr auto fields() {
    using C = ExaoneMoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536};
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("num_experts", &C::num_experts, "Experts of a layer; default 64.", count),
                   field("num_shared_experts", &C::num_shared_experts,
                         "How many times as wide as an expert the MLP is that every token goes to; default 1.", count),
                   field("is_moe_layer", &C::is_moe_layer, "mlp_layer_types by another name; must be the same.")});
  }
  void validate(Problems& problems) const;
};

// DeepSeek's names of what has others here.
ExaoneMoeConfig renamed(const ExaoneMoeConfig& given, Problems& problems) {
  ExaoneMoeConfig c = with_types(given, problems);
  c.n_routed_experts = given.num_experts, c.n_shared_experts = given.num_shared_experts;
  return c;
}

GroupedShape resolve(const ExaoneMoeConfig& given, Problems& problems) {
  GroupedShape s;
  const std::size_t before = problems.size();
  const ExaoneMoeConfig c = renamed(given, problems);
  if (problems.size() > before || !resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  refuse_keys(c.model_type,
              {{"attention_bias", given.attention_bias.value_or(false)},
               {"n_routed_experts", given.n_routed_experts.has_value()},
               {"n_shared_experts", given.n_shared_experts.has_value()}},
              problems);
  problems.require(lets_slide(c), "sliding_window", "got null, expected a number, as transformers has it");
  leave_unrotated(c, s);
  s.experts = read_grouped_experts(c, s, problems);
  problems.require(!c.is_moe_layer || *c.is_moe_layer == s.experts.sparse, "is_moe_layer",
                   "differs from mlp_layer_types or first_k_dense_replace, which alone are read in transformers");
  s.experts.router_name = "", s.experts.router.weight = "gate.weight";  // the correction is beside it
  return s;
}

void ExaoneMoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class ExaoneMoe final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  ExaoneMoe(const ExaoneMoeConfig& config, const HeadRequest& head)
      : GroupedModel(shape_of(config, head)), config_(config) {}

  // Layers that guess further tokens, which no model of transformers has either.
  bool is_no_weight(const std::string& tensor) const override { return tensor.starts_with("mtp"); }
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_grouped_experts(config_, s.experts, node);
    write_pattern(config_, node);
    if (config_.is_moe_layer)
      node.at_or_add("is_moe_layer") = config::Values<std::vector<bool>>::write(s.experts.sparse);
    sort_keys(node);
    return node;
  }

 private:
  ExaoneMoeConfig config_;
};

}  // namespace

void register_exaone_moe(Registries& hone) {
  hone.models.add<ExaoneMoe, ExaoneMoeConfig>("exaone_moe", "K-EXAONE: EXAONE 4's attention, experts by groups.");
}

}  // namespace hone::models
