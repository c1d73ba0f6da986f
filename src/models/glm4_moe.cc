// GLM-4.5 and 4.6 (Z.ai, 2025, arXiv:2508.06471): part of each head is rotated, and DeepSeek-V3's experts.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/registry.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct Glm4MoeConfig : GroupedConfig {
  using Base = GroupedConfig;
  bool use_qk_norm = false;
  static constexpr auto fields() {
    return std::tuple_cat(GroupedConfig::fields(),
                          std::tuple{field("use_qk_norm", &Glm4MoeConfig::use_qk_norm,
                                           "Whether each head's queries and keys are normed.")});
  }
  void validate(Problems& problems) const;
};

constexpr double kShareOfHead = 0.5;  // that is rotated, when nothing is said

Glm4MoeConfig completed(const Glm4MoeConfig& given) {
  Glm4MoeConfig c = given;
  if (!c.partial_rotary_factor) c.partial_rotary_factor = kShareOfHead;
  return c;
}

GroupedShape resolve(const Glm4MoeConfig& given, Problems& problems) {
  const Glm4MoeConfig c = completed(given);
  GroupedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  s.output_bias = false;
  if (c.use_qk_norm) s.qk_norm = QkNorm::head;
  s.experts = read_grouped_experts(c, s, problems);
  return s;
}

void Glm4MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Glm4Moe final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  Glm4Moe(const Glm4MoeConfig& config, const HeadRequest& head)
      : GroupedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_grouped_experts(config_, s.experts, node);
    node.at_or_add("attention_bias") = config::Values<bool>::write(s.qkv_bias);
    node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    node.at_or_add("use_qk_norm") = config::Values<bool>::write(config_.use_qk_norm);
    sort_keys(node);
    return node;
  }

 private:
  Glm4MoeConfig config_;
};

}  // namespace

void register_glm4_moe(Registries& hone) {
  hone.models.add<Glm4Moe, Glm4MoeConfig>("glm4_moe", "GLM-4.5: part of each head is rotated, experts by groups.");
}

}  // namespace hone::models
