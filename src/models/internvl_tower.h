// InternVL's vision tower, InternViT (Chen et al., 2023, arXiv:2312.14238): blocks of which each adds its two sums by
// learned factors.
//
// Letters in tensor names: as in tower.h; I tiles.
// Children carry Hugging Face's names.
#pragma once

#include "models/internvl_config.h"
#include "models/tower.h"

namespace hone::models {

class InternVlBlock final : public Module {
 public:
  InternVlBlock(const InternVlVisionConfig& config, const InternVlVisionShape& shape, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    Attention(const InternVlVisionConfig& config, const InternVlVisionShape& shape);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    nn::Linear& product(const char* name, bool bias);
    const nn::RmsNorm* maybe_norm(const char* name);
    const InternVlVisionConfig& c;
    const InternVlVisionShape& s;
    nn::Linear &q_proj, &k_proj, &v_proj, &projection_layer;
    const nn::RmsNorm *q_norm, *k_norm;  // null: none
  };
  const nn::Norm& norm(const char* name, const InternVlVisionConfig& c, const InternVlVisionShape& s);
  Weight& factor(const char* name, const InternVlVisionConfig& c);
  std::int64_t layer_;
  Weight &lambda_1, &lambda_2;
  Attention& attention;
  TowerMlp& mlp;
  const nn::Norm &layernorm_before, &layernorm_after;
};

class InternVlTower final : public Module {
 public:
  InternVlTower(const InternVlVisionConfig& config, const InternVlVisionShape& shape);
  Tensor operator()(const Tensor& patches_PV, const Pass& pass) const;  // [I, S, D]; a tile's first is of all of it

 private:
  struct Embeddings final : Module {
    Embeddings(const InternVlVisionConfig& config, const InternVlVisionShape& shape);
    Tensor operator()(const Tensor& patches_PV) const;  // [I, S, D]
    const InternVlVisionShape& s;
    Weight &cls_token, *position_embeddings;  // null: none
    PatchProduct& projection;
  };
  const InternVlVisionConfig c;
  const InternVlVisionShape s;
  Embeddings& embeddings;
  nn::Stack<InternVlBlock>& blocks;
  nn::LayerNorm* const layernorm;  // null: none
};

}  // namespace hone::models
