// Pixtral's vision tower.
#include "models/pixtral_tower.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "models/pictures.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

constexpr double kPixtralEps = 1e-5;

nn::Linear::Options product_of(const PixtralShape& s) { return {.std = s.std}; }

// Of each patch: the first half of the pairs of a head turn by its row, the others by its column, each with every
// second one of the frequencies.
Tensor axial_angles(const Pictures& pictures, const PixtralShape& s) {
  std::vector<std::int64_t> rows, columns;
  for (const PictureSpan& picture : pictures.spans)
    for (std::int64_t row = 0; row < picture.grid.rows; ++row)
      for (std::int64_t column = 0; column < picture.grid.columns; ++column)
        rows.push_back(row), columns.push_back(column);
  const std::int64_t size = s.head_size();
  const Tensor inverse = at::pow(s.theta, at::arange(0, size, 2, at::kFloat) / size).reciprocal();
  const auto turned = [&](const std::vector<std::int64_t>& places, std::int64_t first) {
    const Tensor at_places = host::tensor_of(places, {std::ssize(places)}).to(at::kFloat);
    return at::outer(at_places, inverse.slice(0, first, size / 2, 2));
  };
  return at::cat({turned(rows, 0), turned(columns, 1)}, 1);
}

}  // namespace

PixtralBlock::Attention::Attention(const PixtralShape& shape)
    : s(shape),
      k_proj(child<nn::Linear>("k_proj", s.hidden, s.hidden, product_of(s))),
      v_proj(child<nn::Linear>("v_proj", s.hidden, s.hidden, product_of(s))),
      q_proj(child<nn::Linear>("q_proj", s.hidden, s.hidden, product_of(s))),
      o_proj(child<nn::Linear>("o_proj", s.hidden, s.hidden, product_of(s))) {}

Tensor PixtralBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  const auto qkv = nn::linears(x_1PD, {&q_proj, &k_proj, &v_proj}, pass);
  const auto heads = [&](const Tensor& x) { return x.view({-1, s.heads, s.head_size()}); };
  const Tensor seen_PHK = attend_in_tower(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), view, s.dropout, pass);
  return o_proj(seen_PHK.flatten(1).unsqueeze(0), pass);
}

PixtralBlock::PixtralBlock(const PixtralShape& s, std::int64_t layer)
    : layer_(layer),
      attention_norm(child<nn::RmsNorm>("attention_norm", s.hidden, ops::RmsNormForm{kPixtralEps})),
      feed_forward(child<nn::GatedMlp>("feed_forward",
                                       nn::GatedMlp::Options{.hidden = s.hidden,
                                                             .inner = s.inner,
                                                             .activation = nn::read_activation(s.activation),
                                                             .std = s.std})),
      attention(child<Attention>("attention", s)),
      ffn_norm(child<nn::RmsNorm>("ffn_norm", s.hidden, ops::RmsNormForm{kPixtralEps})) {}

void PixtralBlock::add_to(nn::Residual& x, const TowerView& given, const Pass& pass) const {
  TowerView view = given;
  view.layer = layer_;
  x += attention(attention_norm(x), view, pass);
  x += feed_forward(ffn_norm(x), pass);
}

PixtralTower::PixtralTower(const PixtralShape& shape, std::int64_t layer)
    : s(shape),
      layer_(layer),
      patch_conv(child<PatchProduct>("patch_conv", std::vector<std::int64_t>{s.hidden, 3, s.patch, s.patch},
                                     /*with_bias=*/false, s.std)),
      ln_pre(child<nn::RmsNorm>("ln_pre", s.hidden, ops::RmsNormForm{kPixtralEps})),
      blocks(child<nn::Stack<PixtralBlock>>("transformer.layers", s.layers, s)) {
  for (std::int64_t i = layer_; i < s.layers; ++i) {
    const std::string behind = fmt::format("transformer.layers.{}.", i);
    each_weight([&](const std::string& name, Weight& weight) {
      if (name.starts_with(behind)) weight.set_trainable(false);
    });
  }
}

Tensor PixtralTower::operator()(const Pictures& pictures, const Pass& pass) const {
  Tensor x_1PD = ln_pre(patch_conv(pictures.patches_PV).unsqueeze(0));
  const TowerView view{.documents = by_pictures(pictures),
                       .rope = rope_in_tower(axial_angles(pictures, s), x_1PD)};
  for (std::int64_t i = 0; i < layer_; ++i) {
    const PixtralBlock* block = blocks.blocks()[static_cast<std::size_t>(i)];
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
  }
  return x_1PD;
}

}  // namespace hone::models
