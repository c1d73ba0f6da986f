// dots.llm1 (rednote-hilab, 2025, arXiv:2506.05767): Qwen3's attention, and DeepSeek-V3's experts.
#include "hone/registry.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct Dots1Config : GroupedConfig {
  using Base = GroupedConfig;
  static constexpr auto fields() { return GroupedConfig::fields(); }
  void validate(Problems& problems) const;
};

GroupedShape resolve(const Dots1Config& c, Problems& problems) {
  GroupedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_keys(c.model_type,
              {{"mlp_bias", c.mlp_bias.value_or(false)}, {"use_sliding_window", c.use_sliding_window.value_or(false)}},
              problems);
  s.experts = read_grouped_experts(c, s, problems);
  return s;
}

void Dots1Config::validate(Problems& problems) const { resolve(*this, problems); }

class Dots1 final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  Dots1(const Dots1Config& config, const HeadRequest& head) : GroupedModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_grouped_experts(config_, s.experts, node);
    sort_keys(node);
    return node;
  }

 private:
  Dots1Config config_;
};

}  // namespace

void register_dots1(Registries& hone) {
  hone.models.add<Dots1, Dots1Config>("dots1", "dots.llm1: Qwen3's attention, DeepSeek-V3's experts.");
}

}  // namespace hone::models
