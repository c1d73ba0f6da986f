// InternVL3 (Zhu et al., 2025, arXiv:2504.10479) and InternVL3.5 (Wang et al., 2025, arXiv:2508.18265), in the form of
// transformers: InternViT's vectors of a picture's tiles, squares of them side by side through two products in the
// place of words.
//
// Letters in tensor names: I tiles, S vectors of one, P patches, M tokens, V width of the tower.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/internvl_config.h"
#include "models/internvl_tower.h"
#include "models/normed_projector.h"
#include "models/picture_model.h"

namespace hone::models {
namespace {

NormedProjector::Options projector_of(const InternVlConfig& c, const InternVlShape& s) {
  return {.in = s.tower.hidden * s.input.merged * s.input.merged,
          .inner = s.texts.hidden,
          .out = s.texts.hidden,
          .activation = c.projector_hidden_act,
          .std = s.texts.std};
}

class InternVl final : public PictureModel {
 public:
  InternVl(const InternVlConfig& config, const HeadRequest& head) : InternVl(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  InternVl(const InternVlConfig& config, InternVlShape shape)
      : PictureModel(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    const Tensor vectors_ISV = vision_tower(batch.pictures.patches_PV, pass);
    const Tensor patches_PV = vectors_ISV.slice(1, 1).flatten(0, 1);
    return multi_modal_projector(in_squares(patches_PV, batch.pictures, shape_.input.merged), pass);
  }

  const InternVlConfig config_;
  const InternVlShape shape_;
  InternVlTower& vision_tower = child<InternVlTower>("model.vision_tower", shape_.vision_config, shape_.tower);
  NormedProjector& multi_modal_projector =
      child<NormedProjector>("model.multi_modal_projector", projector_of(config_, shape_));
};

}  // namespace

void register_internvl(Registries& hone) {
  hone.models.add<InternVl, InternVlConfig>("internvl",
                                            "InternVL3 and 3.5 in transformers' form: InternViT, a projector, and "
                                            "Qwen's texts.");
}

}  // namespace hone::models
