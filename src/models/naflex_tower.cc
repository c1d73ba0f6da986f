// SigLIP 2's vision tower of pictures of any size.
#include <ATen/ATen.h>

#include "models/pictures.h"
#include "models/siglip_tower.h"
#include "tensor/device.h"

namespace hone::models {
namespace {

// Of each of `places` of a picture's side, how much of each position of a table's side it has: between the two nearest,
// or, of a side that is shorter than the table's, smoothed (bilinear, with antialias). [places, positions]
Tensor shares_on_side(std::int64_t places, std::int64_t positions) {
  const float scale = static_cast<float>(positions) / static_cast<float>(places);
  const Tensor centre = (at::arange(places, at::kFloat) + 0.5) * scale - 0.5;
  const Tensor far = (at::arange(positions, at::kFloat) - centre.unsqueeze(1)).abs() / std::max(scale, 1.0f);
  const Tensor shares = (1 - far).clamp_min(0);
  return shares / shares.sum(1, /*keepdim=*/true);
}

// Of each patch, row by row: [P, positions].
Tensor shares_of_positions(const Pictures& pictures, std::int64_t side) {
  std::vector<Tensor> all;
  for (const PictureSpan& picture : pictures.spans) {
    const Tensor rows = shares_on_side(picture.grid.rows, side), columns = shares_on_side(picture.grid.columns, side);
    const Tensor both = rows.view({-1, 1, side, 1}) * columns.view({1, -1, 1, side});
    all.push_back(both.flatten(2).flatten(0, 1));
  }
  return at::cat(all);
}

}  // namespace

NaflexTower::Embeddings::Embeddings(const SiglipShape& shape)
    : s(shape),
      patch_embedding(child<nn::Linear>("patch_embedding", 3 * s.patch * s.patch, s.block.hidden,
                                        nn::Linear::Options{.bias = true, .std = s.patch_std})),
      position_embedding(child<PositionTable>("position_embedding", s.positions(), s.block.hidden, s.position_std)) {}

Tensor NaflexTower::Embeddings::operator()(const Pictures& pictures, const Pass& pass) const {
  const Tensor& table_SD = position_embedding.weight.use();
  const Tensor shares_PS = devices::sent(shares_of_positions(pictures, s.side()), table_SD.device());
  const Tensor positions_PD = at::matmul(shares_PS, table_SD.to(at::kFloat)).to(table_SD.scalar_type());
  return patch_embedding(pictures.patches_PV.to(table_SD.scalar_type()), pass) + positions_PD;
}

NaflexTower::NaflexTower(const SiglipShape& shape)
    : s(shape),
      embeddings(child<Embeddings>("embeddings", s)),
      blocks(child<nn::Stack<TowerBlock>>("encoder.layers", s.layers, s.block)),
      post_layernorm(child<nn::LayerNorm>("post_layernorm", s.block.hidden, s.block.eps)) {
  if (s.has_head) child<SiglipHead>("head", s);
}

Tensor NaflexTower::operator()(const Pictures& pictures, const Pass& pass) const {
  const TowerView view{.documents = by_pictures(pictures)};
  Tensor x_1PD = embeddings(pictures, pass).unsqueeze(0);
  for (const TowerBlock* block : blocks.blocks())
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
  return post_layernorm(x_1PD).squeeze(0);
}

}  // namespace hone::models
