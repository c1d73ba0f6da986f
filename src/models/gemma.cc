// Gemma (2024, arXiv:2403.08295), Gemma 2 (2024, arXiv:2408.00118) and the text models of Gemma 3 (2025,
// arXiv:2503.19786): norms of 1 + weight, scaled embeddings; from Gemma 2 on norms before and behind attention and MLP,
// and layers with windows; Gemma 2 caps scores and logits, Gemma 3 norms queries and keys. VaultGemma (2025,
// arXiv:2510.15001) is Gemma 2 without the norms behind.
#include <ATen/ATen.h>

#include "hone/registry.h"
#include "models/gemma_config.h"
#include "models/gemma_stack.h"
#include "tensor/host.h"

namespace hone::models {

double GemmaStack::embedding_scale() const {
  const at::ScalarType type = model.embed_tokens.weight.use().scalar_type();
  return host::own_number(at::scalar_tensor(s.embedding_scale, at::kDouble).to(type));
}

namespace {

class Gemma final : public GemmaStack {
 public:
  Gemma(const GemmaConfig& config, const HeadRequest& head) : GemmaStack(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  GemmaConfig config_;
};

}  // namespace

void register_gemma(Registries& hone) {
  hone.models.add<Gemma, GemmaConfig>({"gemma", "gemma2", "gemma3_text", "vaultgemma"},
                                      "Gemma 1 to 3, text; VaultGemma.");
}

}  // namespace hone::models
