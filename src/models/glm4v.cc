// GLM-4.1V and GLM-4.6V-Flash (GLM-V team, 2025, arXiv:2507.01006): GLM-4 with a tower for pictures of any size, whose
// tokens stand in three dimensions.
#include "hone/registry.h"
#include "models/glm4v_model.h"
#include "models/glm_block.h"

namespace hone::models {

void register_glm4v(Registries& hone) {
  using Glm4v = Glm4vModel<LlamaModel<GlmBlock>, Glm4vConfig, Glm4vShape>;
  hone.models.add<Glm4v, Glm4vConfig>({"glm4v", "glm46v"},
                                      "GLM-4.1V and GLM-4.6V-Flash: texts with pictures of any size.");
}

}  // namespace hone::models
