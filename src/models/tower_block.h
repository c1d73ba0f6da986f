// The block that towers of pictures of one size share, CLIP's and SigLIP's: attention among a picture's patches, and an
// MLP, each behind a LayerNorm.
//
// Letters in tensor names: as in tower.h.
#pragma once

#include <cstdint>
#include <string>

#include "models/tower.h"

namespace hone::models {

struct TowerBlockShape {
  std::int64_t hidden = 0, inner = 0, heads = 1;
  double eps = 1e-5, dropout = 0;  // of attention weights
  std::string activation = "gelu_pytorch_tanh";
  double qkv_std = 0.02, out_std = 0.02, up_std = 0.02, down_std = 0.02;  // of fresh products
};

class TowerBlock final : public Module {
 public:
  TowerBlock(const TowerBlockShape& shape, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    explicit Attention(const TowerBlockShape& shape);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    const TowerBlockShape& s;
    nn::Linear &k_proj, &v_proj, &q_proj, &out_proj;
  };
  std::int64_t layer_;
  Attention& self_attn;
  nn::LayerNorm& layer_norm1;
  TowerMlp& mlp;
  nn::LayerNorm& layer_norm2;
};

// Pictures of so many positions each, one after another.
ops::Documents each_picture(std::int64_t pictures, std::int64_t positions);

}  // namespace hone::models
