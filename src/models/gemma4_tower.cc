// Gemma 4's vision tower, and what unified models have instead of it.
#include "models/gemma4_tower.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "hone/error.h"
#include "ops/gated.h"
#include "ops/rms_norm.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

Gemma4Product::Options product(const Gemma4VisionShape& s) { return {s.clips, s.std}; }

Tensor normed(const Tensor& x, ops::RmsNormForm form) {
  return ops::rms_norm(x, at::ones({x.size(-1)}, x.options()), form);
}

// Columns and rows of all patches, [P, 2], as the processor gives them; and their order by tokens: all of a token's
// patches one after another, row by row.
struct PatchPlaces {
  std::vector<std::int64_t> columns_and_rows, order;
  std::vector<ops::Span> pictures;
};

PatchPlaces places_of(const Pictures& pictures, std::int64_t pooled, std::int64_t positions) {
  PatchPlaces made;
  std::int64_t first = 0;
  for (const PictureSpan& picture : pictures.spans) {
    const auto [frames, rows, columns] = picture.grid;
    if (std::max(rows, columns) > positions)
      throw Error(ErrorKind::data, fmt::format("a picture of {} by {} patches; the model knows {} in a row or column",
                                               rows, columns, positions));
    for (std::int64_t top = 0; top < rows; top += pooled)
      for (std::int64_t left = 0; left < columns; left += pooled)
        for (std::int64_t i = 0; i < pooled * pooled; ++i) {
          const std::int64_t row = top + i / pooled, column = left + i % pooled;
          made.columns_and_rows.insert(made.columns_and_rows.end(), {column, row});
          made.order.push_back(first + row * columns + column);
        }
    made.pictures.push_back({first, first + picture.grid.patches()});
    first += picture.grid.patches();
  }
  return made;
}

Tensor integers(const std::vector<std::int64_t>& values) { return host::tensor_of(values, {std::ssize(values)}); }

// Of each patch: half of the pairs turn by its column, half by its row.
ops::RopeTable rope_of(const Tensor& places_P2, const Gemma4VisionShape& s, const Tensor& like) {
  const std::int64_t half = s.head_size / 2;
  const Tensor inverse = at::pow(s.theta, at::arange(0, half, 2, at::kFloat) / half).reciprocal();
  const auto angles = [&](std::int64_t axis) { return at::outer(places_P2.select(1, axis).to(at::kFloat), inverse); };
  return rope_in_tower(at::cat({angles(0), angles(1)}, 1), like);
}

// A head's halves turn by themselves, each with pairs (i, i + quarter). Here pairs are (i, i + half), as everywhere:
// queries and keys are put in that order, and scores do not change.
Tensor in_pairs(const Tensor& x_PHK) {
  const std::int64_t quarter = x_PHK.size(-1) / 4;
  return x_PHK.unflatten(-1, {2, 2, quarter}).transpose(-3, -2).flatten(-3);
}

// Learned vectors of columns and of rows, [2, S, D].
Tensor learned(const Tensor& table_2SD, const Tensor& places_P2) {
  const Tensor index_2P = devices::sent(places_P2.t().contiguous(), table_2SD.device());
  return table_2SD[0].index_select(0, index_2P[0]) + table_2SD[1].index_select(0, index_2P[1]);
}

}  // namespace

Gemma4TowerBlock::Attention::Attention(const Gemma4VisionShape& shape)
    : s(shape),
      q_proj(child<Gemma4Product>("q_proj", s.hidden, s.heads * s.head_size, product(s))),
      k_proj(child<Gemma4Product>("k_proj", s.hidden, s.kv_heads * s.head_size, product(s))),
      v_proj(child<Gemma4Product>("v_proj", s.hidden, s.kv_heads * s.head_size, product(s))),
      o_proj(child<Gemma4Product>("o_proj", s.heads * s.head_size, s.hidden, product(s))),
      q_norm(child<nn::RmsNorm>("q_norm", s.head_size, s.norm())),
      k_norm(child<nn::RmsNorm>("k_norm", s.head_size, s.norm())) {}

Tensor Gemma4TowerBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  std::vector<Tensor> qkv;
  if (!s.clips)
    qkv = nn::linears(x_1PD, {&q_proj.linear, &k_proj.linear, &v_proj.linear}, pass);
  else
    for (const Tensor x = x_1PD.value(); const Gemma4Product* one : {&q_proj, &k_proj, &v_proj})
      qkv.push_back((*one)(x, pass));
  const auto heads = [&](const Tensor& x) { return x.view({-1, x.size(-1) / s.head_size, s.head_size}); };
  const Tensor seen_PHK = attend_in_tower(in_pairs(q_norm(heads(qkv[0]))), in_pairs(k_norm(heads(qkv[1]))),
                                          normed(heads(qkv[2]), s.norm()), view, s.dropout, pass);
  return o_proj(seen_PHK.flatten(1).unsqueeze(0), pass);
}

Gemma4TowerBlock::Mlp::Mlp(const Gemma4VisionShape& shape)
    : s(shape),
      gate_proj(child<Gemma4Product>("gate_proj", s.hidden, s.inner, product(s))),
      up_proj(child<Gemma4Product>("up_proj", s.hidden, s.inner, product(s))),
      down_proj(child<Gemma4Product>("down_proj", s.inner, s.hidden, product(s))) {}

Tensor Gemma4TowerBlock::Mlp::operator()(const nn::Input& x_1PD, const Pass& pass) const {
  std::vector<Tensor> made;
  if (!s.clips)
    made = nn::linears(x_1PD, {&gate_proj.linear, &up_proj.linear}, pass);
  else
    for (const Tensor x = x_1PD.value(); const Gemma4Product* one : {&gate_proj, &up_proj})
      made.push_back((*one)(x, pass));
  return down_proj(ops::gated(made[0], made[1], s.activation), pass);
}

Gemma4TowerBlock::Gemma4TowerBlock(const Gemma4VisionShape& s, std::int64_t layer)
    : layer_(layer),
      self_attn(child<Attention>("self_attn", s)),
      mlp(child<Mlp>("mlp", s)),
      input_layernorm(child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm())),
      post_attention_layernorm(child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm())),
      pre_feedforward_layernorm(child<nn::RmsNorm>("pre_feedforward_layernorm", s.hidden, s.norm())),
      post_feedforward_layernorm(child<nn::RmsNorm>("post_feedforward_layernorm", s.hidden, s.norm())) {}

void Gemma4TowerBlock::add_to(nn::Residual& x, const TowerView& given, const Pass& pass) const {
  TowerView view = given;
  view.layer = layer_;
  x += post_attention_layernorm(self_attn(input_layernorm(x), view, pass));
  x += post_feedforward_layernorm(mlp(pre_feedforward_layernorm(x), pass));
}

Gemma4Tower::Patches::Patches(const Gemma4VisionShape& s)
    : input_proj(child<nn::Linear>("input_proj", 3 * s.patch * s.patch, s.hidden, nn::Linear::Options{.std = s.std})),
      positions_2SD(parameter("position_embedding_table", {2, s.positions, s.hidden}, {.kind = Init::Kind::ones})) {}

Gemma4Tower::Gemma4Tower(const Gemma4VisionShape& shape)
    : s(shape),
      patch_embedder(child<Patches>("patch_embedder", s)),
      blocks(child<nn::Stack<Gemma4TowerBlock>>("encoder.layers", s.layers, s)) {
  if (!s.standardises) return;
  const auto stays = [](const Tensor& value, const Tensor&) { return value; };
  std_bias = &buffer("std_bias", {s.hidden}, {.kind = Init::Kind::zeros}, stays);
  std_scale = &buffer("std_scale", {s.hidden}, {.kind = Init::Kind::ones}, stays);
}

Tensor Gemma4Tower::embedded(const Pictures& pictures, const Tensor& places_P2, const Tensor& order_P,
                             const Pass& pass) const {
  const Tensor& values_PV = pictures.patches_PV;
  const Tensor patches_PV = values_PV.index_select(0, devices::sent(order_P, values_PV.device()));
  const Tensor& table = patch_embedder.positions_2SD.use();
  return patch_embedder.input_proj((2 * (patches_PV - 0.5)).to(table.scalar_type()), pass) + learned(table, places_P2);
}

// Means of squares of patches, in fp32 at least, rounded once between, as in transformers.
Tensor Gemma4Tower::pooled(const Tensor& x_PD) const {
  const at::ScalarType type = x_PD.scalar_type(), wide = at::toOpMathType(type);
  const Tensor squares = x_PD.view({-1, s.pooled * s.pooled, s.hidden});
  const Tensor means_MD = s.pooled == 1 ? x_PD : squares.to(wide).mean(1).to(type);
  const Tensor scaled_MD = means_MD.to(wide) * std::sqrt(static_cast<double>(s.hidden));
  if (!std_bias) return scaled_MD.to(type);
  return ((scaled_MD - std_bias->use().to(wide)) * std_scale->use().to(wide)).to(type);
}

Tensor Gemma4Tower::operator()(const Pictures& pictures, const Pass& pass) const {
  const PatchPlaces places = places_of(pictures, s.pooled, s.positions);
  const Tensor places_P2 = integers(places.columns_and_rows).view({-1, 2});
  Tensor x_1PD = embedded(pictures, places_P2, integers(places.order), pass).unsqueeze(0);
  const TowerView view{.documents = places.pictures, .rope = rope_of(places_P2, s, x_1PD), .scale = 1};
  for (const Gemma4TowerBlock* block : blocks.blocks())
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
  return pooled(x_1PD.squeeze(0));
}

Gemma4Projector::Gemma4Projector(std::int64_t width, std::int64_t hidden, double eps, double std)
    : eps_(eps),
      embedding_projection(
          child<nn::Linear>("embedding_projection", width, hidden, nn::Linear::Options{.std = std})) {}

Tensor Gemma4Projector::operator()(const Tensor& x_MD, const Pass& pass) const {
  return embedding_projection(normed(x_MD, {eps_, ops::RmsFactor::wide_weight}), pass);
}

Gemma4PatchEmbedder::Gemma4PatchEmbedder(const Gemma4PatchShape& shape, std::int64_t hidden, double std)
    : s(shape),
      patch_ln1(child<nn::LayerNorm>("patch_ln1", 3 * s.patch * s.patch, /*eps=*/1e-5)),
      patch_dense(child<nn::Linear>("patch_dense", 3 * s.patch * s.patch, s.width,
                                    nn::Linear::Options{.bias = true, .std = std})),
      patch_ln2(child<nn::LayerNorm>("patch_ln2", s.width, /*eps=*/1e-5)),
      pos_embedding(parameter("pos_embedding", {s.positions, 2, s.width}, {.std = s.std})),
      pos_norm(child<nn::LayerNorm>("pos_norm", s.width, /*eps=*/1e-5)),
      multimodal_embedder(child<Gemma4Projector>("multimodal_embedder", s.width, hidden, s.eps, std)) {}

Tensor Gemma4PatchEmbedder::operator()(const Pictures& pictures, const Pass& pass) const {
  const PatchPlaces places = places_of(pictures, /*pooled=*/1, s.positions);
  const Tensor& table_S2D = pos_embedding.use();
  const Tensor patches_PV = pictures.patches_PV.to(table_S2D.scalar_type());
  const Tensor made_PD = patch_ln2(patch_dense(patch_ln1(patches_PV), pass));
  const Tensor placed_PD =
      made_PD + learned(table_S2D.transpose(0, 1), integers(places.columns_and_rows).view({-1, 2}));
  return multimodal_embedder(pos_norm(placed_PD), pass);
}

}  // namespace hone::models
