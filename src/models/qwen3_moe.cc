// Qwen2-MoE (Qwen Team, 2024, arXiv:2407.10671) and Qwen3-MoE (2025, arXiv:2505.09388): Qwen2 and Qwen3 whose layers
// have routed experts in place of the MLP, the former with one besides that every token goes to.
#include "base/log.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/balanced_model.h"
#include "models/mlp_or_experts.h"
#include "models/pre_norm_block.h"
#include "models/qwen3_moe_config.h"

namespace hone::models {
namespace {

class Qwen3MoeMlp final : public MlpOrExperts {
 public:
  Qwen3MoeMlp(const Qwen3MoeShape& s, std::int64_t layer)
      : MlpOrExperts(s.sparse[static_cast<std::size_t>(layer)], s.options(s),
                     {s.hidden, s.inner, s.activation, s.mlp_bias, s.std}) {}
};

class Qwen3Moe final : public Balanced<DecodingLlama<PreNormBlock<Qwen3MoeShape, Qwen3MoeMlp>, Qwen3MoeShape>> {
 public:
  Qwen3Moe(const Qwen3MoeConfig& config, const HeadRequest& head)
      : Balanced(shape_of(config, head)), config_(config) {
    if (config.model_type == "qwen3_moe" && config.max_window_layers && s.windows[0] > 0)
      log::warning("config.json: max_window_layers has no effect in qwen3_moe models, in transformers as here");
  }

  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  Qwen3MoeConfig config_;
};

}  // namespace

void register_qwen3_moe(Registries& hone) {
  hone.models.add<Qwen3Moe, Qwen3MoeConfig>({"qwen2_moe", "qwen3_moe"}, "Qwen2 and Qwen3 with routed experts.");
}

}  // namespace hone::models
