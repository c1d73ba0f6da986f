// LLaVA (Liu et al., 2023, arXiv:2310.03744): CLIP's vectors of a picture's patches, through two products, in the place
// of words.
//
// Letters in tensor names: I pictures, S vectors of one, D hidden, M tokens.
// Children carry Hugging Face's names.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/clip_tower.h"
#include "models/llava_config.h"
#include "models/picture_model.h"

namespace hone::models {

void refuse_labels(const HeadRequest& head, const std::string& model_type) {
  if (head.labels.empty() && !head.masked_lm) return;
  throw Error(ErrorKind::config, fmt::format("a model of type {} has a language-model head and no other", model_type))
      .hint("objective causal_lm trains it");
}

namespace {

LlavaShape llava_shape(const LlavaConfig& config, const HeadRequest& head) {
  Problems problems;
  LlavaShape shape = resolve(config, problems);
  problems.raise("the model's configuration");
  refuse_labels(head, "llava");
  warn_ignored(shape.text_config);
  return shape;
}

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
  Llava(const LlavaConfig& config, const HeadRequest& head) : Llava(config, llava_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Llava(const LlavaConfig& config, LlavaShape shape)
      : PictureModel(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor&, Pass& pass) const override {
    std::vector<Tensor> chosen;
    for (const Tensor& state_ISD : vision_tower(batch.pictures.patches_PV, pass))
      chosen.push_back(shape_.all_vectors ? state_ISD : state_ISD.slice(1, 1));
    return multi_modal_projector(chosen.size() == 1 ? chosen[0] : at::cat(chosen, -1), pass).flatten(0, 1);
  }

  const LlavaConfig config_;
  const LlavaShape shape_;
  ClipTower& vision_tower = child<ClipTower>("model.vision_tower", shape_.tower, shape_.layers);
  Projector& multi_modal_projector = child<Projector>("model.multi_modal_projector", config_, shape_);
};

}  // namespace

void register_llava(Registries& hone) {
  hone.models.add<Llava, LlavaConfig>("llava", "LLaVA: CLIP's vision tower, a projector, and a Llama or a relative.");
}

}  // namespace hone::models
