// The vision tower of GLM-4.1V and GLM-4.6V-Flash (GLM-V team, 2025, arXiv:2507.01006): pictures of any size, rows and
// columns in rotations and in learned positions, of which a picture takes a stretched square; squares of patches become
// a token through one product.
//
// Letters in tensor names: as in tower.h; M tokens.
#pragma once

#include "models/glm4v_config.h"
#include "models/patch_places.h"
#include "models/tower.h"

namespace hone::models {

class GlmVisionBlock final : public Module {
 public:
  GlmVisionBlock(const Glm4vVisionConfig& config, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    explicit Attention(const Glm4vVisionConfig& config);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    const Glm4vVisionConfig& c;
    nn::Linear &qkv, &proj;
  };
  const std::int64_t layer_;
  const nn::RmsNorm &norm1, &norm2;
  const Attention& attn;
  const nn::GatedMlp& mlp;
};

class GlmMerger final : public Module {
 public:
  explicit GlmMerger(const Glm4vVisionConfig& config);
  Tensor operator()(const Tensor& x_MD, const Pass& pass) const;

 private:
  const nn::Linear& proj;
  const nn::LayerNorm& post_projection_norm;
  const nn::GatedMlp& mlp;
};

class Glm4vTower final : public Module {
 public:
  explicit Glm4vTower(const Glm4vTowerShape& shape);
  // Patches as the processor gives them: those of a token one after another. Returns a vector for each token.
  Tensor operator()(const Pictures& pictures, const Pass& pass) const;  // [M, out]

 private:
  const Glm4vVisionConfig c;
  const double theta_;
  const std::int64_t side_;
  const PatchProduct& patch_embed;
  const nn::RmsNorm& post_conv_layernorm;
  const PositionTable& positions;
  const nn::Stack<GlmVisionBlock>& blocks;
  const nn::RmsNorm& post_layernorm;
  const PatchProduct& downsample;
  const GlmMerger& merger;
};

// Each place's shares of the positions of a side, [P, side]: bicubic, between four of them, those beyond an end being
// the end's. at, all: the place, and how many of its picture there are.
Tensor stretched_positions(const std::vector<std::int64_t>& at, const std::vector<std::int64_t>& all,
                           std::int64_t side);

}  // namespace hone::models
