// Qwen3.5 (Qwen Team, 2026) as its folders have it: texts, with a tower for pictures of any size, whose tokens stand in
// three dimensions. What folders are named after ("qwen3_5" and "qwen3_5_moe") is this; the texts' half is qwen3_5.cc.
#include "hone/registry.h"
#include "models/qwen3_5_stack.h"
#include "models/qwen_vl_model.h"

namespace hone::models {
void register_qwen3_5_vl(Registries& hone) {
  hone.models.add<QwenVlModel<Qwen35Stack, Qwen35VlShape>, QwenVlConfig>("qwen3_5",
                                                                         "Qwen3.5: texts with pictures of any size.");
  hone.models.add<QwenVlModel<Qwen35Stack, Qwen35MoeVlShape>, QwenVlConfig>(
      "qwen3_5_moe", "Qwen3.5 with routed experts: texts with pictures.");
}

}  // namespace hone::models
