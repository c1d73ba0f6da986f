// Qwen2-VL (Wang et al., 2024, arXiv:2409.12191) and Qwen2.5-VL (Bai et al., 2025, arXiv:2502.13923): Qwen2 with a
// tower for pictures of any size, whose tokens stand in three dimensions.
//
// Letters in tensor names: M tokens of pictures, D hidden.
// Children carry Hugging Face's names.
#include "hone/registry.h"
#include "models/picture_model.h"
#include "models/qwen_tower.h"
#include "models/qwen_vl_config.h"

namespace hone::models {

namespace {

class QwenVl final : public PictureModel {
 public:
  QwenVl(const QwenVlConfig& config, const HeadRequest& head)
      : QwenVl(config, qwen_vl_shape<QwenVlShape>(config, head)) {}
  config::Node hf_config() const override { return to_hf_config(config_, shape_, dtype()); }

 private:
  QwenVl(const QwenVlConfig& config, QwenVlShape shape)
      : PictureModel(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const override {
    rotate_in_three(batch, input_, *ropes_.of(0), shape_.axes(), like, pass);
    return visual(batch.pictures, pass)[0];
  }

  const QwenVlConfig config_;
  const QwenVlShape shape_;
  QwenTower& visual = child<QwenTower>("model.visual", shape_.tower);
};

}  // namespace

void register_qwen2_vl(Registries& hone) {
  hone.models.add<QwenVl, QwenVlConfig>({"qwen2_vl", "qwen2_5_vl"},
                                        "Qwen2-VL and Qwen2.5-VL: texts with pictures of any size.");
}

}  // namespace hone::models
