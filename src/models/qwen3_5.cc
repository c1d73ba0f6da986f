// Qwen3-Next (Qwen Team, 2025) and the text models of Qwen3.5 (2026).
#include "hone/registry.h"
#include "models/qwen3_5_stack.h"

namespace hone::models {
namespace {

template <class C>
class Qwen35 final : public Qwen35Stack {
 public:
  Qwen35(const C& config, const HeadRequest& head) : Qwen35Stack(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  C config_;
};

}  // namespace

void register_qwen3_5(Registries& hone) {
  hone.models.add<Qwen35<Qwen35Config>, Qwen35Config>("qwen3_5_text",
                                                      "Qwen3.5, text: memories in most layers, gated attention.");
  hone.models.add<Qwen35<Qwen35MoeConfig>, Qwen35MoeConfig>({"qwen3_next", "qwen3_5_moe_text"},
                                                            "Qwen3-Next, and Qwen3.5 with routed experts, text.");
}

}  // namespace hone::models
