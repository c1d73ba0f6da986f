// Pixtral's vision tower (Agrawal et al., 2024, arXiv:2410.07073): pictures of any size, whose patches turn by their
// rows and columns.
//
// Letters in tensor names: as in tower.h.
// Children carry Hugging Face's names.
#pragma once

#include "models/pixtral_config.h"
#include "models/tower.h"

namespace hone::models {

class PixtralBlock final : public Module {
 public:
  PixtralBlock(const PixtralShape& shape, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    explicit Attention(const PixtralShape& shape);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    const PixtralShape& s;
    nn::Linear &k_proj, &v_proj, &q_proj, &o_proj;
  };
  std::int64_t layer_;
  nn::RmsNorm& attention_norm;
  nn::GatedMlp& feed_forward;
  Attention& attention;
  nn::RmsNorm& ffn_norm;
};

class PixtralTower final : public Module {
 public:
  // layer: whose output is asked for, counted from 1; 0 is what the first one reads. Weights behind it are of no use
  // here, and are not trained.
  PixtralTower(const PixtralShape& shape, std::int64_t layer);
  Tensor operator()(const Pictures& pictures, const Pass& pass) const;  // [1, P, D], row by row of each picture

 private:
  const PixtralShape s;
  const std::int64_t layer_;
  PatchProduct& patch_conv;
  nn::RmsNorm& ln_pre;
  nn::Stack<PixtralBlock>& blocks;
};

}  // namespace hone::models
