// CLIP's vision tower (Radford et al., 2021, arXiv:2103.00020).
//
// Letters in tensor names: as in tower.h; I pictures.
#pragma once

#include "models/clip_config.h"
#include "models/tower_block.h"

namespace hone::models {

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
  const TowerBlockShape shape_;
  const std::vector<std::int64_t> layers_;
  Embeddings& embeddings;
  nn::LayerNorm& pre_layrnorm;
  nn::Stack<TowerBlock>& blocks;
  nn::LayerNorm& post_layernorm;
};

}  // namespace hone::models
