// DeepSeek-V2 (DeepSeek-AI, 2024, arXiv:2405.04434), DeepSeek-V3 (2024, arXiv:2412.19437) and GLM-4.7-Flash (Z.ai,
// 2026): attention by latents, and experts that are chosen by groups beside shared ones.
#include "hone/registry.h"
#include "models/latent_model.h"

namespace hone::models {
namespace {

class Deepseek final : public LatentModel<> {
 public:
  Deepseek(const LatentConfig& config, const HeadRequest& head)
      : LatentModel(shape_of(config, head)), config_(config) {}
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
