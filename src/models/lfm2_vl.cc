// LFM2-VL (Liquid AI, 2025, arXiv:2511.23404): SigLIP 2's vectors of the patches of a picture, or of tiles of a large
// one and all of it, squares of them side by side through two products in the place of words of an LFM2.
//
// Letters in tensor names: P patches, M tokens, V width of the tower.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/lfm2_stack.h"
#include "models/lfm2_vl_config.h"
#include "models/normed_projector.h"
#include "models/picture_model.h"
#include "models/siglip_tower.h"

namespace hone::models {
namespace {

NormedProjector::Options projector_of(const Lfm2VlConfig& c, const Lfm2VlShape& s) {
  return {.in = s.tower.block.hidden * s.input.merged * s.input.merged,
          .inner = c.projector_hidden_size,
          .out = s.texts.hidden,
          .activation = c.projector_hidden_act,
          .has_norm = c.projector_use_layernorm,
          .bias = c.projector_bias,
          .std = s.texts.std};
}

class Lfm2Vl final : public PictureModelOf<Lfm2Stack> {
 public:
  Lfm2Vl(const Lfm2VlConfig& config, const HeadRequest& head) : Lfm2Vl(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Lfm2Vl(const Lfm2VlConfig& config, Lfm2VlShape shape)
      : PictureModelOf(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    const Tensor patches_PV = vision_tower(batch.pictures, pass);
    return multi_modal_projector(in_squares(patches_PV, batch.pictures, shape_.input.merged), pass);
  }

  const Lfm2VlConfig config_;
  const Lfm2VlShape shape_;
  NaflexTower& vision_tower = child<NaflexTower>("model.vision_tower", shape_.tower);
  NormedProjector& multi_modal_projector =
      child<NormedProjector>("model.multi_modal_projector", projector_of(config_, shape_));
};

}  // namespace

void register_lfm2_vl(Registries& hone) {
  hone.models.add<Lfm2Vl, Lfm2VlConfig>("lfm2_vl",
                                        "LFM2-VL: SigLIP 2's vision tower, a projector, and LFM2's texts.");
}

}  // namespace hone::models
