// A GLM that reads pictures: a model of texts with a tower, whose tokens stand in three dimensions.
//
// Letters in tensor names: M tokens of pictures, D hidden.
#pragma once

#include <utility>

#include "models/glm4v_tower.h"
#include "models/picture_model.h"
#include "models/picture_texts.h"

namespace hone::models {

// Stack: the model of texts; Shape: what resolve() makes of C.
template <class Stack, class C, class Shape>
class Glm4vModel final : public PictureModelOf<Stack> {
  using Base = PictureModelOf<Stack>;

 public:
  Glm4vModel(const C& config, const HeadRequest& head) : Glm4vModel(config, picture_shape(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, Base::dtype()); }

 private:
  Glm4vModel(const C& config, Shape shape)
      : Base(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const override {
    const std::vector<std::int64_t> axes = axes_of(shape_.sections, /*by_turns=*/false);
    rotate_in_three(batch, Base::input_, *Base::ropes_.of(0), axes, like, pass);
    return visual(batch.pictures, pass);
  }

  const C config_;
  const Shape shape_;
  Glm4vTower& visual = Base::template child<Glm4vTower>("model.visual", shape_);
};

}  // namespace hone::models
