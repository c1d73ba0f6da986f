// GLM-4.1V and GLM-4.6V-Flash (GLM-V team, 2025, arXiv:2507.01006): GLM-4 with a tower for pictures of any size, whose
// tokens stand in three dimensions.
//
// Letters in tensor names: M tokens of pictures, D hidden.
// Children carry Hugging Face's names.
#include "hone/registry.h"
#include "models/glm4v_tower.h"
#include "models/glm_block.h"
#include "models/picture_model.h"
#include "models/picture_texts.h"

namespace hone::models {
namespace {

class Glm4v final : public PictureModelOf<LlamaModel<GlmBlock>> {
 public:
  Glm4v(const Glm4vConfig& config, const HeadRequest& head) : Glm4v(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Glm4v(const Glm4vConfig& config, Glm4vShape shape)
      : PictureModelOf(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const override {
    rotate_in_three(batch, input_, *ropes_.of(0), axes_of(shape_.sections, /*by_turns=*/false), like, pass);
    return visual(batch.pictures, pass);
  }

  const Glm4vConfig config_;
  const Glm4vShape shape_;
  Glm4vTower& visual = child<Glm4vTower>("model.visual", shape_);
};

}  // namespace

void register_glm4v(Registries& hone) {
  hone.models.add<Glm4v, Glm4vConfig>({"glm4v", "glm46v"},
                                      "GLM-4.1V and GLM-4.6V-Flash: texts with pictures of any size.");
}

}  // namespace hone::models
