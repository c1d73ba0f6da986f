// Llama (Touvron et al., 2023; Llama 1 to 3), and the models that are Llama with other numbers: Mistral, Ministral,
// Qwen2, Qwen3.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

class Llama final : public LlamaStack {
 public:
  Llama(const LlamaConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  LlamaConfig config_;
};

}  // namespace

void register_llama(Registries& hone) {
  hone.models.add<Llama, LlamaConfig>({"llama", "mistral", "ministral", "qwen2", "qwen3"},
                                      "Llama 1 to 3 and its relatives.");
}

}  // namespace hone::models
