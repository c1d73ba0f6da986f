// SigLIP's vision tower (Zhai et al., 2023, arXiv:2303.15343), what Idefics 3 made of it, and SigLIP 2's of pictures of
// any size (Tschannen et al., 2025, arXiv:2502.14786).
//
// Letters in tensor names: as in tower.h; I pictures.
// Children carry Hugging Face's names.
#pragma once

#include "models/siglip_config.h"
#include "models/tower_block.h"

namespace hone::models {

// Pools the patches of a picture, for which no model here has a use: its weights stay as they are.
struct SiglipHead final : Module {
  explicit SiglipHead(const SiglipShape& shape);
  struct Attention final : Module {
    explicit Attention(const SiglipShape& shape);
  };
};

class SiglipTower final : public Module {
 public:
  explicit SiglipTower(const SiglipShape& shape);
  Tensor operator()(const Tensor& patches_PV, const Pass& pass) const;  // [I, S, D]

 private:
  struct Embeddings final : Module {
    explicit Embeddings(const SiglipShape& shape);
    Tensor operator()(const Tensor& patches_PV) const;  // [I, S, D]
    const SiglipShape& s;
    PatchProduct& patch_embedding;
    PositionTable& position_embedding;
  };
  const SiglipShape s;
  Embeddings& embeddings;
  nn::Stack<TowerBlock>& blocks;
  nn::LayerNorm& post_layernorm;
};

// SigLIP 2's.
class NaflexTower final : public Module {
 public:
  explicit NaflexTower(const SiglipShape& shape);
  Tensor operator()(const Pictures& pictures, const Pass& pass) const;  // [P, D], row by row of each picture

 private:
  struct Embeddings final : Module {
    explicit Embeddings(const SiglipShape& shape);
    Tensor operator()(const Pictures& pictures, const Pass& pass) const;  // [P, D]
    const SiglipShape& s;
    nn::Linear& patch_embedding;
    PositionTable& position_embedding;
  };
  const SiglipShape s;
  Embeddings& embeddings;
  nn::Stack<TowerBlock>& blocks;
  nn::LayerNorm& post_layernorm;
};

// Which learned position each patch of a side has, as Idefics 3 finds it: by where it stands between the sides' ends,
// in fp32, so that of some sides, such as 25, neighbours share one.
Tensor bucketed_positions(std::int64_t side);

}  // namespace hone::models
