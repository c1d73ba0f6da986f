// Qwen3.5 (Qwen Team, 2026) as its folders have it: texts, with a tower for pictures of any size, whose tokens stand in
// three dimensions. What folders are named after ("qwen3_5" and "qwen3_5_moe") is this; the texts' half is qwen3_5.cc.
//
// Letters in tensor names: M tokens of pictures, D hidden.
// Children carry Hugging Face's names.
#include "hone/registry.h"
#include "models/picture_model.h"
#include "models/qwen3_5_stack.h"
#include "models/qwen_tower.h"
#include "models/qwen_vl_config.h"

namespace hone::models {
namespace {

template <class Shape>
class Qwen35Vl final : public PictureModelOf<Qwen35Stack> {
 public:
  Qwen35Vl(const QwenVlConfig& config, const HeadRequest& head)
      : Qwen35Vl(config, qwen_vl_shape<Shape>(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  Qwen35Vl(const QwenVlConfig& config, Shape shape)
      : PictureModelOf(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const override {
    rotate_in_three(batch, input_, rope(), shape_.axes(), like, pass);
    return visual(batch.pictures, pass)[0];
  }
  // All layers with attention have the same; those with memories turn nothing.
  const nn::Rope& rope() const { return *ropes_.of(0); }

  const QwenVlConfig config_;
  const Shape shape_;
  QwenTower& visual = child<QwenTower>("model.visual", shape_.tower);
};

}  // namespace

void register_qwen3_5_vl(Registries& hone) {
  hone.models.add<Qwen35Vl<Qwen35VlShape>, QwenVlConfig>("qwen3_5", "Qwen3.5: texts with pictures of any size.");
  hone.models.add<Qwen35Vl<Qwen35MoeVlShape>, QwenVlConfig>("qwen3_5_moe",
                                                            "Qwen3.5 with routed experts: texts with pictures.");
}

}  // namespace hone::models
