// Mistral Small 3.1 and 3.2 and Ministral 3 (Mistral AI, 2025): Pixtral's vectors of a picture's patches, squares of
// them through a product to one, through two more in the place of words. Rows of a picture end with a word of their
// own.
//
// Letters in tensor names: P patches, S patches of a square, V width of the tower, M tokens.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/mistral3_config.h"
#include "models/picture_model.h"
#include "models/pixtral_tower.h"

namespace hone::models {
namespace {

class SquaresProjector final : public Module {
 public:
  SquaresProjector(const Mistral3Config& config, const Mistral3Shape& shape) : c(config), s(shape) {}
  Tensor operator()(const Tensor& x_1PV, const Pictures& pictures, const Pass& pass) const {
    const Tensor squares_MSV = in_squares(norm(x_1PV).squeeze(0), pictures, s.input.merged);
    const Tensor merged_MV = merging_layer(squares_MSV.transpose(1, 2).flatten(1), pass);  // a value's patches together
    return linear_2(activation_(linear_1(merged_MV, pass)), pass);
  }

 private:
  nn::Linear& product(const char* name, std::int64_t in) {
    return child<nn::Linear>(name, in, s.texts.hidden,
                             nn::Linear::Options{.bias = c.multimodal_projector_bias, .std = s.texts.std});
  }
  const Mistral3Config& c;
  const Mistral3Shape& s;
  const Activated activation_{c.projector_hidden_act};
  nn::RmsNorm& norm = child<nn::RmsNorm>("norm", s.tower.hidden, ops::RmsNormForm{s.texts.eps});
  nn::Linear& merging_layer =
      child<nn::Linear>("patch_merger.merging_layer", s.tower.hidden* s.input.merged* s.input.merged, s.tower.hidden,
                        nn::Linear::Options{.std = s.texts.std});
  nn::Linear& linear_1 = product("linear_1", s.tower.hidden);
  nn::Linear& linear_2 = product("linear_2", s.texts.hidden);
};

class Mistral3 final : public PictureModel {
 public:
  Mistral3(const Mistral3Config& config, const HeadRequest& head) : Mistral3(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Mistral3(const Mistral3Config& config, Mistral3Shape shape)
      : PictureModel(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    return multi_modal_projector(vision_tower(batch.pictures, pass), batch.pictures, pass);
  }

  const Mistral3Config config_;
  const Mistral3Shape shape_;
  PixtralTower& vision_tower = child<PixtralTower>("model.vision_tower", shape_.tower, shape_.layer);
  SquaresProjector& multi_modal_projector =
      child<SquaresProjector>("model.multi_modal_projector", config_, shape_);
};

}  // namespace

void register_mistral3(Registries& hone) {
  hone.models.add<Mistral3, Mistral3Config>("mistral3",
                                            "Mistral Small 3.1 and 3.2, Ministral 3: Pixtral's vision tower, a "
                                            "projector, and Mistral's texts.");
}

}  // namespace hone::models
