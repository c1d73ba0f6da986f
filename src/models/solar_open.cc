// Solar Open (Upstage, 2026): Llama's attention, and in all layers GLM-4.5's experts.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct SolarOpenConfig : GroupedConfig {
  using Base = GroupedConfig;
  bool use_qk_norm = false;
  static constexpr auto fields() {
    return std::tuple_cat(GroupedConfig::fields(),
                          std::tuple{field("use_qk_norm", &SolarOpenConfig::use_qk_norm, "Only false.")});
  }
  void validate(Problems& problems) const;
};

constexpr const char* kNoInner = "intermediate_size";  // of an MLP that no layer has; published files have the key

GroupedShape resolve(const SolarOpenConfig& given, Problems& problems) {
  SolarOpenConfig c = given;
  c.intermediate_size.reset();
  GroupedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(!c.use_qk_norm, "use_qk_norm", "got true, expected false, as transformers has it");
  s.output_bias = false;
  s.experts = read_grouped_experts(c, s, problems);
  return s;
}

void SolarOpenConfig::validate(Problems& problems) const { resolve(*this, problems); }

class SolarOpen final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  SolarOpen(const SolarOpenConfig& config, const HeadRequest& head)
      : GroupedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_grouped_experts(config_, s.experts, node);
    std::erase_if(node.entries(), [](const auto& entry) { return entry.first == kNoInner; });
    node.at_or_add("attention_bias") = config::Values<bool>::write(s.qkv_bias);
    if (s.rope.partial_rotary_factor != 1)
      node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    sort_keys(node);
    return node;
  }

 private:
  SolarOpenConfig config_;
};

}  // namespace

void register_solar_open(Registries& hone) {
  hone.models.add<SolarOpen, SolarOpenConfig>("solar_open", "Solar Open: Llama's attention, experts by groups.");
}

}  // namespace hone::models
