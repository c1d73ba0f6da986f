// Ministral 3 (Mistral AI, 2025): Mistral whose queries grow with their position, as in Llama 4.
#include "hone/registry.h"
#include "models/llama_stack.h"
#include "models/ministral3_config.h"

namespace hone::models {
namespace {

class Ministral3 final : public LlamaStack {
 public:
  Ministral3(const Ministral3Config& config, const HeadRequest& head)
      : LlamaStack(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  Ministral3Config config_;
};

}  // namespace

void register_ministral3(Registries& hone) {
  hone.models.add<Ministral3, Ministral3Config>("ministral3", "Ministral 3: queries grow with their position.");
}

}  // namespace hone::models
