// The vision towers of Qwen2-VL (Wang et al., 2024, arXiv:2409.12191) and Qwen2.5-VL (Bai et al., 2025,
// arXiv:2502.13923): pictures of any size, rows and columns in rotations; in the latter most blocks see windows. And
// that of Qwen3-VL (Bai et al., 2025, arXiv:2511.21631), with learned positions, of which the text model reads the
// output of several blocks, and that of Qwen3.5 (2026), of which it reads the last one's.
//
// Letters in tensor names: as in tower.h; M tokens.
#pragma once

#include "models/qwen_vision_config.h"
#include "models/tower.h"

namespace hone::models {

class QwenBlock final : public Module {
 public:
  QwenBlock(const QwenVisionShape& shape, std::int64_t layer);
  void add_to(nn::Residual& x, const TowerView& view, const Pass& pass) const;

 private:
  struct Attention final : Module {
    explicit Attention(const QwenVisionShape& shape);
    Tensor operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const;
    const QwenVisionShape& s;
    nn::Linear &qkv, &proj;
  };
  const nn::Norm& norm(const char* name, const QwenVisionShape& s);
  const nn::Norm& norm1;
  const nn::Norm& norm2;
  Attention& attn;
  nn::GatedMlp* gated_ = nullptr;  // one of the two
  TowerMlp* plain_ = nullptr;
};

// The patches of a token through a norm and two products.
class QwenMerger final : public Module {
 public:
  // joined: the norm is of a token's patches together.
  QwenMerger(const QwenVisionShape& shape, bool joined);
  Tensor operator()(const Tensor& x_1PD, const Pass& pass) const;  // [M, out]

 private:
  const nn::Norm& norm(const char* name, std::int64_t width);
  const QwenVisionShape& s;
  const bool joined_;
  const nn::Norm& norm_;
  nn::Linear &first, &second;
};

class QwenTower final : public Module {
 public:
  explicit QwenTower(const QwenVisionShape& shape);
  // Patches as the processor gives them: those of a token one after another. Returns [M, out] of the last block, and of
  // each of deep_blocks.
  std::vector<Tensor> operator()(const Pictures& pictures, const Pass& pass) const;

 private:
  const QwenVisionShape s;
  PatchProduct& patch_embed;
  PositionTable* pos_embed = nullptr;  // of learned positions
  nn::Stack<QwenBlock>& blocks;
  QwenMerger& merger;
  std::vector<const QwenMerger*> deep_mergers_;
};

}  // namespace hone::models
