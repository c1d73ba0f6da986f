// Gemma 4 (2026) with pictures: a tower that sees them, or, in unified models, products of their pixels, and Gemma 4's
// texts, in which some models let a picture's tokens see each other in layers with a window. Towers of sounds are kept
// as they are.
//
// Letters in tensor names: B batch, T time, D hidden, M tokens of pictures.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/gemma4_stack.h"
#include "models/gemma4_tower.h"
#include "models/gemma4_whole_config.h"
#include "models/picture_model.h"

namespace hone::models {
namespace {

Gemma4WholeShape whole_shape(const Gemma4WholeConfig& config, const HeadRequest& head) {
  Problems problems;
  Gemma4WholeShape shape = resolve(config, problems);
  problems.raise("the model's configuration");
  refuse_labels(head, config.model_type);
  warn_changed(shape.text_config);
  warn_ignored(shape.text_config);
  return shape;
}

class Gemma4Whole final : public PictureModelOf<Gemma4Stack> {
 public:
  Gemma4Whole(const Gemma4WholeConfig& config, const HeadRequest& head)
      : Gemma4Whole(config, whole_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

  // What tokens bring to layers is made of what the first layer sees; those that stand for anything but a word bring
  // what padding brings.
  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor ids_BT = ids_of_words(batch.ids_BT);
    Tensor x_BTD = words(ids_BT, pass);
    if (!batch.pictures.spans.empty()) {
      check_pictures(batch, input_);
      x_BTD = with_pictures(x_BTD, features_MD(batch, x_BTD, pass), batch, input_);
    }
    leave_inputs(ids_BT, x_BTD, pass);
    return x_BTD;
  }

 private:
  Gemma4Whole(const Gemma4WholeConfig& config, Gemma4WholeShape shape)
      : PictureModelOf(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {
    const std::int64_t hidden = shape_.texts.hidden;
    const double std = config_.initializer_range;
    if (config_.is_unified()) {
      patches_ = &child<Gemma4PatchEmbedder>("model.embed_vision", shape_.patches, hidden, std);
    } else {
      tower_ = &child<Gemma4Tower>("model.vision_tower", shape_.tower);
      projector_ =
          &child<Gemma4Projector>("model.embed_vision", shape_.tower.hidden, hidden, shape_.tower.eps, std);
    }
    if (shape_.audio_config) {
      child<Gemma4AudioTower>("model.audio_tower", *shape_.audio_config);
      child<Gemma4SoundProduct>("model.embed_audio", shape_.audio_config->output_proj_dims, hidden, std);
    }
    if (shape_.sound_config)
      child<Gemma4SoundProduct>("model.embed_audio", shape_.sound_config->width(), hidden, std);
  }

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    if (shape_.see_each_other) see_within_pictures(batch, pass, /*near_only=*/true);
    return patches_ ? (*patches_)(batch.pictures, pass) : (*projector_)((*tower_)(batch.pictures, pass), pass);
  }

  Tensor ids_of_words(const Tensor& ids_BT) const {
    if (s.no_gradient_id < 0) return ids_BT;
    Tensor is_word = ids_BT != input_.token;
    for (const std::int32_t other : {input_.film, input_.sound})
      if (other >= 0) is_word = is_word.logical_and(ids_BT != other);
    return ids_BT.masked_fill(is_word.logical_not(), s.no_gradient_id);
  }

  const Gemma4WholeConfig config_;
  const Gemma4WholeShape shape_;
  const Gemma4Tower* tower_ = nullptr;  // null, as the next one: a unified model
  const Gemma4Projector* projector_ = nullptr;
  const Gemma4PatchEmbedder* patches_ = nullptr;  // null: another
};

}  // namespace

void register_gemma4_whole(Registries& hone) {
  hone.models.add<Gemma4Whole, Gemma4WholeConfig>(
      {"gemma4", "gemma4_unified"},
      "Gemma 4: a vision tower, or products of pixels, and Gemma 4's texts; towers of sounds are kept.");
}

}  // namespace hone::models
