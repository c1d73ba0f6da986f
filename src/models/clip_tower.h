// CLIP's vision tower (Radford et al., 2021, arXiv:2103.00020).
//
// Letters in tensor names: as in tower.h; I pictures.
#pragma once

#include "models/clip_config.h"
#include "models/tower.h"

namespace hone::models {

class ClipBlock final : public Module {
 public:
  ClipBlock(const ClipConfig& config, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    explicit Attention(const ClipConfig& config);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    const ClipConfig& c;
    nn::Linear &k_proj, &v_proj, &q_proj, &out_proj;
  };
  std::int64_t layer_;
  Attention& self_attn;
  nn::LayerNorm& layer_norm1;
  TowerMlp& mlp;
  nn::LayerNorm& layer_norm2;
};

class ClipTower final : public Module {
 public:
  // layers: whose output is asked for, counted from 1; 0 is what the first one reads. Weights behind the last of them
  // are of no use here, and are not trained.
  ClipTower(const ClipConfig& config, std::vector<std::int64_t> layers);
  // Of each layer asked for [I, S, D]: a picture's first vector is of all of it, the others are of its patches.
  std::vector<Tensor> operator()(const Tensor& patches_PV, const Pass& pass) const;

 private:
  struct Embeddings final : Module {
    explicit Embeddings(const ClipConfig& config);
    Tensor operator()(const Tensor& patches_PV) const;  // [I, S, D]
    const ClipConfig& c;
    Weight& class_embedding;
    PatchProduct& patch_embedding;
    PositionTable& position_embedding;
  };
  const ClipConfig c;
  const std::vector<std::int64_t> layers_;
  Embeddings& embeddings;
  nn::LayerNorm& pre_layrnorm;
  nn::Stack<ClipBlock>& blocks;
  nn::LayerNorm& post_layernorm;
};

}  // namespace hone::models
