// DeepSeek-V2 (DeepSeek-AI, 2024, arXiv:2405.04434), DeepSeek-V3 (2024, arXiv:2412.19437) and GLM-4.7-Flash (Z.ai,
// 2026): attention by latents, and experts that are chosen by groups beside shared ones.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/registry.h"
#include "models/grouped_block.h"
#include "models/latent_attention.h"
#include "models/llama_model.h"

namespace hone::models {
namespace {

class Deepseek final : public GroupedModel<LatentAttention, LatentShape> {
 public:
  Deepseek(const LatentConfig& config, const HeadRequest& head)
      : GroupedModel(shape_of(config, head)), config_(config) {}

  std::vector<AttentionLayer> attention() const override {
    const std::int64_t mean = (s.latent.query_size() + s.latent.values) / 2;  // of what scores and values cost
    return std::vector<AttentionLayer>(static_cast<std::size_t>(s.layers), {s.heads, mean});
  }
  CacheSpec cache_spec() const override {
    const CacheSpec::Layer layer{.kv_heads = 1, .head_size = s.latent.latent + s.latent.rotated,
                                 .values_are_keys = true};
    return {std::vector<CacheSpec::Layer>(static_cast<std::size_t>(s.layers), layer)};
  }
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  LatentConfig config_;
};

}  // namespace

void register_deepseek(Registries& hone) {
  hone.models.add<Deepseek, LatentConfig>({"deepseek_v2", "deepseek_v3", "glm4_moe_lite"},
                                          "DeepSeek: attention by latents, experts by groups; GLM-4.7-Flash.");
}

}  // namespace hone::models
