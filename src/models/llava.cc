// LLaVA (Liu et al., 2023, arXiv:2310.03744): CLIP's vectors of a picture's patches, through two products, in the place
// of words. LLaVA-NeXT (Liu et al., 2024, "Improved reasoning, OCR, and world knowledge") reads a picture whole, and in
// tiles, whose vectors are put together to rows that end with one of their own.
//
// Letters in tensor names: I pictures or tiles, S vectors of one, D hidden, M tokens, Y rows and X columns of tiles put
// together.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/clip_tower.h"
#include "models/llava_config.h"
#include "models/picture_model.h"

namespace hone::models {
namespace {

class Projector final : public Module {
 public:
  Projector(const LlavaConfig& config, const LlavaShape& shape) : c(config), s(shape) {}
  Tensor operator()(const Tensor& x_ISD, const Pass& pass) const {
    return linear_2(activation_(linear_1(x_ISD, pass)), pass);
  }

 private:
  nn::Linear& product(const char* name, std::int64_t in) {
    return child<nn::Linear>(name, in, s.texts.hidden,
                             nn::Linear::Options{.bias = c.multimodal_projector_bias, .std = s.texts.std});
  }
  const LlavaConfig& c;
  const LlavaShape& s;
  const Activated activation_{c.projector_hidden_act};
  nn::Linear& linear_1 = product("linear_1", s.tower.hidden_size* std::ssize(s.layers));
  nn::Linear& linear_2 = product("linear_2", s.texts.hidden);
};

class Llava final : public PictureModel {
 public:
  Llava(const LlavaConfig& config, const HeadRequest& head) : Llava(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Llava(const LlavaConfig& config, LlavaShape shape)
      : PictureModel(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    std::vector<Tensor> chosen;
    for (const Tensor& state_ISD : vision_tower(batch.pictures.patches_PV, pass))
      chosen.push_back(shape_.all_vectors ? state_ISD : state_ISD.slice(1, 1));
    const Tensor made_ISD = multi_modal_projector(chosen.size() == 1 ? chosen[0] : at::cat(chosen, -1), pass);
    return shape_.input.joined ? joined_MD(made_ISD, batch.pictures.spans) : made_ISD.flatten(0, 1);
  }

  // Of each picture all of it, then its tiles put together, without what shows nothing of it.
  Tensor joined_MD(const Tensor& made_ISD, const std::vector<PictureSpan>& spans) const {
    const Tensor end_D = image_newline->use();
    std::vector<Tensor> parts;
    std::int64_t tile = 0;
    for (const PictureSpan& span : spans) {
      const TileGrid& tiles = span.tiles;
      const Tensor rows_YXD = made_ISD.narrow(0, tile + 1, tiles.tiles() - 1)
                                  .view({tiles.rows, tiles.columns, span.grid.rows, span.grid.columns, -1})
                                  .transpose(1, 2)
                                  .flatten(2, 3)
                                  .flatten(0, 1);
      const Tensor shown_YXD = rows_YXD.slice(0, tiles.cut_rows, rows_YXD.size(0) - tiles.cut_rows)
                                   .slice(1, tiles.cut_columns, rows_YXD.size(1) - tiles.cut_columns);
      parts.push_back(made_ISD[tile]);
      parts.push_back(at::cat({shown_YXD, end_D.expand({shown_YXD.size(0), 1, -1}).to(shown_YXD.scalar_type())}, 1)
                          .flatten(0, 1));
      tile += tiles.tiles();
    }
    return at::cat(parts);
  }

  const LlavaConfig config_;
  const LlavaShape shape_;
  ClipTower& vision_tower = child<ClipTower>("model.vision_tower", shape_.tower, shape_.layers);
  Projector& multi_modal_projector = child<Projector>("model.multi_modal_projector", config_, shape_);
  Weight* const image_newline =
      shape_.input.joined ? &parameter("model.image_newline", {shape_.texts.hidden},
                                       {.std = 1 / std::sqrt(static_cast<double>(shape_.texts.hidden))})
                          : nullptr;
};

}  // namespace

void register_llava(Registries& hone) {
  hone.models.add<Llava, LlavaConfig>({"llava", "llava_next"},
                                      "LLaVA and LLaVA-NeXT: CLIP's vision tower, a projector, and a Llama or a "
                                      "relative.");
}

}  // namespace hone::models
