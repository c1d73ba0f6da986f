// A Qwen that reads pictures: a model of texts with a tower, whose tokens stand in three dimensions.
//
// Letters in tensor names: M tokens of pictures, D hidden.
#pragma once

#include <utility>

#include "models/deep_stack.h"
#include "models/picture_model.h"
#include "models/qwen_tower.h"
#include "models/qwen_vl_config.h"

namespace hone::models {

// Stack: the model of texts, all of whose layers with attention turn alike; Shape: as qwen_vl_shape() gives it.
template <class Stack, class Shape>
class QwenVlModel final : public PictureModelOf<Stack> {
  using Base = PictureModelOf<Stack>;

 public:
  QwenVlModel(const QwenVlConfig& config, const HeadRequest& head)
      : QwenVlModel(config, qwen_vl_shape<Shape>(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, Base::dtype()); }

 private:
  QwenVlModel(const QwenVlConfig& config, Shape shape)
      : Base(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const override {
    rotate_in_three(batch, Base::input_, *Base::ropes_.of(0), shape_.axes(), like, pass);
    return leave_for_layers(visual(batch.pictures, pass), like, pass);
  }

  const QwenVlConfig config_;
  const Shape shape_;
  QwenTower& visual = Base::template child<QwenTower>("model.visual", shape_.tower);
};

}  // namespace hone::models
