// Idefics 3 (Laurençon et al., 2024, arXiv:2408.12637) and SmolVLM (Marafioti et al., 2025, arXiv:2504.05299): a Llama
// that reads a picture in tiles and as a whole; squares of a tile's patches, side by side, are a token through one
// product.
//
// Letters in tensor names: I tiles, S patches of one, D hidden, M tokens, V width of the tower.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/idefics3_config.h"
#include "models/picture_model.h"
#include "models/siglip_tower.h"

namespace hone::models {
namespace {

class Connector final : public Module {
 public:
  explicit Connector(const Idefics3Shape& shape) : s(shape) {}
  Tensor operator()(const Tensor& x_ISV, const Pass& pass) const {
    const std::int64_t unit = s.input.merged, side = s.tower.side() / unit, width = x_ISV.size(2);
    const Tensor squares = x_ISV.view({-1, side, unit, side, unit, width}).permute({0, 1, 3, 2, 4, 5});
    return proj(squares.reshape({-1, unit * unit * width}), pass);
  }

 private:
  const Idefics3Shape& s;
  nn::Linear& proj = child<nn::Linear>("modality_projection.proj", s.tower.block.hidden* s.input.merged* s.input.merged,
                                       s.texts.hidden, nn::Linear::Options{.std = s.texts.std});
};

class Idefics3 final : public PictureModel {
 public:
  Idefics3(const Idefics3Config& config, const HeadRequest& head) : Idefics3(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Idefics3(const Idefics3Config& config, Idefics3Shape shape)
      : PictureModel(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    return connector(vision_model(batch.pictures.patches_PV, pass), pass);
  }

  const Idefics3Config config_;
  const Idefics3Shape shape_;
  SiglipTower& vision_model = child<SiglipTower>("model.vision_model", shape_.tower);
  Connector& connector = child<Connector>("model.connector", shape_);
};

}  // namespace

void register_idefics3(Registries& hone) {
  hone.models.add<Idefics3, Idefics3Config>({"idefics3", "smolvlm"},
                                            "Idefics 3 and SmolVLM: texts with pictures in tiles.");
}

}  // namespace hone::models
