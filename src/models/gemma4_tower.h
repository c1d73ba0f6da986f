// Gemma 4's vision tower (2026): patches of pictures of any size, whose columns and rows turn half of each head each,
// and are learned besides; squares of what comes out become one token each. And what unified models have instead of it:
// products of pixels.
//
// Letters in tensor names: as in tower.h; M tokens, W width of texts.
// Children carry Hugging Face's names.
#pragma once

#include "hone/batch.h"
#include "models/gemma4_clipped.h"
#include "models/gemma4_vision_config.h"
#include "models/tower.h"

namespace hone::models {

class Gemma4TowerBlock final : public Module {
 public:
  Gemma4TowerBlock(const Gemma4VisionShape& shape, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    explicit Attention(const Gemma4VisionShape& shape);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    const Gemma4VisionShape& s;
    Gemma4Product &q_proj, &k_proj, &v_proj, &o_proj;
    nn::RmsNorm &q_norm, &k_norm;
  };
  struct Mlp final : Module {
    explicit Mlp(const Gemma4VisionShape& shape);
    Tensor operator()(const nn::Input& x_1PD, const Pass& pass) const;
    const Gemma4VisionShape& s;
    Gemma4Product &gate_proj, &up_proj, &down_proj;
  };
  std::int64_t layer_;
  Attention& self_attn;
  Mlp& mlp;
  nn::RmsNorm &input_layernorm, &post_attention_layernorm, &pre_feedforward_layernorm, &post_feedforward_layernorm;
};

class Gemma4Tower final : public Module {
 public:
  explicit Gemma4Tower(const Gemma4VisionShape& shape);
  Tensor operator()(const Pictures& pictures, const Pass& pass) const;  // [M, D]

 private:
  struct Patches final : Module {  // to vectors
    explicit Patches(const Gemma4VisionShape& shape);
    nn::Linear& input_proj;
    Weight& positions_2SD;
  };
  Tensor embedded(const Pictures& pictures, const Tensor& places_P2, const Tensor& order_P, const Pass& pass) const;
  Tensor pooled(const Tensor& x_PD) const;

  const Gemma4VisionShape s;
  Patches& patch_embedder;
  nn::Stack<Gemma4TowerBlock>& blocks;
  Weight *std_bias = nullptr, *std_scale = nullptr;  // null: tokens stay as they are
};

// To the width of texts: a product of what is normed without a weight.
class Gemma4Projector final : public Module {
 public:
  Gemma4Projector(std::int64_t width, std::int64_t hidden, double eps, double std);
  Tensor operator()(const Tensor& x_MD, const Pass& pass) const;  // [M, W]

 private:
  double eps_;
  nn::Linear& embedding_projection;
};

// Of unified models: patches, as large as a token, to the width of texts.
class Gemma4PatchEmbedder final : public Module {
 public:
  Gemma4PatchEmbedder(const Gemma4PatchShape& shape, std::int64_t hidden, double std);
  Tensor operator()(const Pictures& pictures, const Pass& pass) const;  // [M, W]

 private:
  const Gemma4PatchShape s;
  nn::LayerNorm& patch_ln1;
  nn::Linear& patch_dense;
  nn::LayerNorm& patch_ln2;
  Weight& pos_embedding;
  nn::LayerNorm& pos_norm;
  Gemma4Projector& multimodal_embedder;
};

}  // namespace hone::models
