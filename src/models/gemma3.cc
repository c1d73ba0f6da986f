// Gemma 3 (2025, arXiv:2503.19786) with pictures: SigLIP's vectors of a picture's patches, the means of squares of them
// through a norm and a product, in the place of words that see each other.
//
// Letters in tensor names: I pictures, S patches of one, D hidden, M tokens, V width of the tower.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/gemma3_config.h"
#include "models/gemma_stack.h"
#include "models/picture_model.h"
#include "models/siglip_tower.h"

namespace hone::models {
namespace {

class MeansProjector final : public Module {
 public:
  explicit MeansProjector(const Gemma3Shape& shape) : s(shape) {}
  Tensor operator()(const Tensor& x_ISV) const {
    const std::int64_t side = s.tower.side() / s.pooled, width = x_ISV.size(2);
    const Tensor squares = x_ISV.view({-1, side, s.pooled, side, s.pooled, width});
    const Tensor means_MV = squares.mean({2, 4}).view({-1, width});
    return at::matmul(mm_soft_emb_norm(means_MV), mm_input_projection_weight.use());
  }

 private:
  const Gemma3Shape& s;
  Weight& mm_input_projection_weight =
      parameter("mm_input_projection_weight", {s.tower.block.hidden, s.texts.hidden}, {.kind = Init::Kind::zeros});
  nn::RmsNorm& mm_soft_emb_norm = child<nn::RmsNorm>(
      "mm_soft_emb_norm", s.tower.block.hidden, ops::RmsNormForm(s.tower.block.eps, ops::RmsFactor::one_plus_weight));
};

class Gemma3 final : public PictureModelOf<GemmaStack> {
 public:
  Gemma3(const Gemma3Config& config, const HeadRequest& head) : Gemma3(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Gemma3(const Gemma3Config& config, Gemma3Shape shape)
      : PictureModelOf(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    see_within_pictures(batch, pass);
    return multi_modal_projector(vision_tower(batch.pictures.patches_PV, pass));
  }

  const Gemma3Config config_;
  const Gemma3Shape shape_;
  SiglipTower& vision_tower = child<SiglipTower>("model.vision_tower", shape_.tower);
  MeansProjector& multi_modal_projector = child<MeansProjector>("model.multi_modal_projector", shape_);
};

}  // namespace

void register_gemma3(Registries& hone) {
  hone.models.add<Gemma3, Gemma3Config>("gemma3", "Gemma 3: SigLIP's vision tower, a projector, and Gemma 3's texts.");
}

}  // namespace hone::models
