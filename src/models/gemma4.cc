// The text models of Gemma 4 (2026).
#include "hone/registry.h"
#include "models/gemma4_stack.h"

namespace hone::models {
namespace {

class Gemma4 final : public Gemma4Stack {
 public:
  Gemma4(const Gemma4Config& config, const HeadRequest& head) : Gemma4Stack(shape_of(config, head)), config_(config) {
    warn_changed(config_);
  }
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  const Gemma4Config config_;
};

}  // namespace

void register_gemma4(Registries& hone) {
  hone.models.add<Gemma4, Gemma4Config>({"gemma4_text", "gemma4_unified_text"}, "Gemma 4, text.");
}

}  // namespace hone::models
