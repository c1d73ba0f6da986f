// SigLIP's vision tower.
#include "models/siglip_tower.h"

#include <ATen/ATen.h>

#include "tensor/device.h"

namespace hone::models {

Tensor bucketed_positions(std::int64_t side) {
  const double step = 1.0 / static_cast<double>(side);
  const Tensor ends = at::arange(step, 1.0, step, at::kFloat);
  const Tensor at_side = at::arange(side, at::kFloat) * (1.0f / static_cast<float>(side));
  const Tensor bucket = at::bucketize(at_side.clamp_max(1.0 - 1e-6), ends, /*out_int32=*/false, /*right=*/true);
  return (bucket.unsqueeze(1) * side + bucket.unsqueeze(0)).flatten();
}

SiglipTower::Embeddings::Embeddings(const SiglipShape& shape)
    : s(shape),
      patch_embedding(child<PatchProduct>("patch_embedding",
                                          std::vector<std::int64_t>{s.block.hidden, 3, s.patch, s.patch},
                                          /*with_bias=*/true, s.patch_std)),
      position_embedding(
          child<PositionTable>("position_embedding", s.positions(), s.block.hidden, s.position_std)) {}

Tensor SiglipTower::Embeddings::operator()(const Tensor& patches_PV) const {
  const Tensor patches_ISD = patch_embedding(patches_PV).view({-1, s.positions(), s.block.hidden});
  const Tensor& table_SD = position_embedding.weight.use();
  if (!s.by_buckets) return patches_ISD + table_SD;
  return patches_ISD + table_SD.index_select(0, devices::sent(bucketed_positions(s.side()), table_SD.device()));
}

SiglipHead::Attention::Attention(const SiglipShape& s) {
  const std::int64_t width = s.block.hidden;
  parameter("in_proj_weight", {3 * width, width}, {.std = s.block.qkv_std});
  parameter("in_proj_bias", {3 * width}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  child<nn::Linear>("out_proj", width, width, nn::Linear::Options{.bias = true, .std = s.block.out_std});
}

SiglipHead::SiglipHead(const SiglipShape& s) {
  parameter("probe", {1, 1, s.block.hidden}, {.std = s.position_std});
  child<Attention>("attention", s);
  child<nn::LayerNorm>("layernorm", s.block.hidden, s.block.eps);
  child<TowerMlp>("mlp", TowerMlp::Options{s.block.hidden, s.block.inner, s.block.activation, s.block.up_std,
                                           s.block.down_std});
  each_weight([](const std::string&, Weight& weight) { weight.set_trainable(false); });
}

SiglipTower::SiglipTower(const SiglipShape& shape)
    : s(shape),
      embeddings(child<Embeddings>("embeddings", s)),
      blocks(child<nn::Stack<TowerBlock>>("encoder.layers", s.layers, s.block)),
      post_layernorm(child<nn::LayerNorm>("post_layernorm", s.block.hidden, s.block.eps)) {
  if (s.has_head) child<SiglipHead>("head", s);
}

Tensor SiglipTower::operator()(const Tensor& patches_PV, const Pass& pass) const {
  const Tensor embedded_ISD = embeddings(patches_PV);
  const std::int64_t pictures = embedded_ISD.size(0);
  const TowerView view{.documents = each_picture(pictures, s.positions())};
  Tensor x_1PD = embedded_ISD.view({1, -1, s.block.hidden});
  for (const TowerBlock* block : blocks.blocks())
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
  return post_layernorm(x_1PD).view({pictures, s.positions(), s.block.hidden});
}

}  // namespace hone::models
