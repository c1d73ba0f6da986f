// Qwen2-VL (Wang et al., 2024, arXiv:2409.12191) and Qwen2.5-VL (Bai et al., 2025, arXiv:2502.13923): Qwen2 with a
// tower for pictures of any size, whose tokens stand in three dimensions.
#include "hone/registry.h"
#include "models/qwen_vl_model.h"

namespace hone::models {

void register_qwen2_vl(Registries& hone) {
  hone.models.add<QwenVlModel<LlamaStack, QwenVlShape>, QwenVlConfig>(
      {"qwen2_vl", "qwen2_5_vl"}, "Qwen2-VL and Qwen2.5-VL: texts with pictures of any size.");
}

}  // namespace hone::models
