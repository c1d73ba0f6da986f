// The vision tower of GLM-4.1V.
#include "models/glm4v_tower.h"

#include <ATen/ATen.h>

#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

constexpr double kCubicSteepness = -0.75;  // of the cubic between positions, PyTorch's
constexpr double kGlmMergerEps = 1e-5;

nn::GatedMlp::Options glm_gated(std::int64_t hidden, std::int64_t inner, const Glm4vVisionConfig& c) {
  return {.hidden = hidden,
          .inner = inner,
          .activation = nn::read_activation(c.hidden_act),
          .bias = false,
          .std = c.initializer_range};
}

Tensor places_in_fp32(const std::vector<std::int64_t>& values) {
  return host::tensor_of(values, {std::ssize(values)}).to(at::kFloat);
}

// Shares of a tap so far away, at most two places.
Tensor near_cubic_tap(const Tensor& x) { return ((kCubicSteepness + 2) * x - (kCubicSteepness + 3)) * x * x + 1; }
Tensor far_cubic_tap(const Tensor& x) {
  return ((kCubicSteepness * x - 5 * kCubicSteepness) * x + 8 * kCubicSteepness) * x - 4 * kCubicSteepness;
}

}  // namespace

Tensor stretched_positions(const std::vector<std::int64_t>& at, const std::vector<std::int64_t>& all,
                           std::int64_t side) {
  const Tensor place = (places_in_fp32(at) + 0.5) / places_in_fp32(all) * static_cast<double>(side) - 0.5;
  const Tensor before = place.floor(), behind = place - before;
  const Tensor first = before.to(at::kLong);
  const Tensor shares[] = {far_cubic_tap(behind + 1), near_cubic_tap(behind), near_cubic_tap(1 - behind),
                           far_cubic_tap(2 - behind)};
  Tensor made = at::zeros({place.size(0), side}, at::kFloat);
  for (std::int64_t tap = 0; tap < 4; ++tap)
    made.scatter_add_(1, (first + (tap - 1)).clamp(0, side - 1).unsqueeze(1), shares[tap].unsqueeze(1));
  return made;
}

GlmVisionBlock::Attention::Attention(const Glm4vVisionConfig& config)
    : c(config),
      qkv(child<nn::Linear>("qkv", c.hidden_size, 3 * c.hidden_size,
                            nn::Linear::Options{.bias = c.attention_bias, .std = c.initializer_range})),
      proj(child<nn::Linear>("proj", c.hidden_size, c.hidden_size, nn::Linear::Options{.std = c.initializer_range})) {}

Tensor GlmVisionBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  const Tensor all_PHK = nn::linears(x_1PD, {&qkv}, pass)[0].view({-1, 3 * c.num_heads, c.hidden_size / c.num_heads});
  const auto parts = all_PHK.split(c.num_heads, 1);
  return proj(attend_in_tower(parts[0], parts[1], parts[2], view, c.attention_dropout, pass).flatten(1).unsqueeze(0),
              pass);
}

GlmVisionBlock::GlmVisionBlock(const Glm4vVisionConfig& c, std::int64_t layer)
    : layer_(layer),
      norm1(child<nn::RmsNorm>("norm1", c.hidden_size, ops::RmsNormForm{c.rms_norm_eps})),
      norm2(child<nn::RmsNorm>("norm2", c.hidden_size, ops::RmsNormForm{c.rms_norm_eps})),
      attn(child<Attention>("attn", c)),
      mlp(child<nn::GatedMlp>("mlp", glm_gated(c.hidden_size, c.out_hidden_size, c))) {}

void GlmVisionBlock::add_to(nn::Residual& x, const TowerView& shared, const Pass& pass) const {
  TowerView view = shared;
  view.layer = layer_;
  x += attn(norm1(x), view, pass);
  x += mlp(norm2(x), pass);
}

GlmMerger::GlmMerger(const Glm4vVisionConfig& c)
    : proj(child<nn::Linear>("proj", c.out_hidden_size, c.out_hidden_size,
                             nn::Linear::Options{.std = c.initializer_range})),
      post_projection_norm(child<nn::LayerNorm>("post_projection_norm", c.out_hidden_size, kGlmMergerEps)),
      mlp(child<nn::GatedMlp>("", glm_gated(c.out_hidden_size, c.intermediate_size, c))) {}

Tensor GlmMerger::operator()(const Tensor& x_MD, const Pass& pass) const {
  const Tensor x_1MD = x_MD.unsqueeze(0);
  return mlp(nn::activate(post_projection_norm(proj(x_1MD, pass)), ops::Activation::gelu), pass).squeeze(0);
}

Glm4vTower::Glm4vTower(const Glm4vTowerShape& shape)
    : c(shape.tower),
      theta_(shape.theta),
      side_(shape.side),
      patch_embed(child<PatchProduct>(
          "patch_embed.proj",
          std::vector<std::int64_t>{c.hidden_size, 3, c.temporal_patch_size, c.patch_size, c.patch_size},
          /*with_bias=*/true, c.initializer_range)),
      post_conv_layernorm(
          child<nn::RmsNorm>("post_conv_layernorm", c.hidden_size, ops::RmsNormForm{c.rms_norm_eps})),
      positions(child<PositionTable>("embeddings.position_embedding", side_ * side_, c.hidden_size,
                                     c.initializer_range)),
      blocks(child<nn::Stack<GlmVisionBlock>>("blocks", c.depth, c)),
      post_layernorm(child<nn::RmsNorm>("post_layernorm", c.hidden_size, ops::RmsNormForm{c.rms_norm_eps})),
      downsample(child<PatchProduct>(
          "downsample",
          std::vector<std::int64_t>{c.out_hidden_size, c.hidden_size, c.spatial_merge_size, c.spatial_merge_size},
          /*with_bias=*/true, c.initializer_range)),
      merger(child<GlmMerger>("merger", c)) {}

Tensor Glm4vTower::operator()(const Pictures& pictures, const Pass& pass) const {
  const PatchPlaces places = patch_places(pictures, c.spatial_merge_size);
  Tensor x_1PD = post_conv_layernorm(patch_embed(pictures.patches_PV).unsqueeze(0));
  const Tensor rows = stretched_positions(places.rows, places.all_rows, side_),
               columns = stretched_positions(places.columns, places.all_columns, side_);
  const Tensor shares = devices::sent((rows.unsqueeze(2) * columns.unsqueeze(1)).flatten(1), x_1PD.device());
  const Tensor table = positions.weight.use();
  x_1PD = x_1PD + at::matmul(shares.to(at::promote_types(at::kFloat, table.scalar_type())),
                             table.to(at::promote_types(at::kFloat, table.scalar_type())))
                      .to(x_1PD.scalar_type());
  const TowerView view{.documents = places.pictures,
                       .rope = rope_in_tower(axial_angles(places, c.hidden_size / c.num_heads, theta_), x_1PD)};
  for (const GlmVisionBlock* block : blocks.blocks())
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
  // Values of a square by channels, as a convolution has them.
  const std::int64_t unit = c.spatial_merge_size * c.spatial_merge_size;
  const Tensor squares = post_layernorm(x_1PD).view({-1, unit, c.hidden_size}).transpose(1, 2).flatten(1);
  return merger(downsample(squares), pass);
}

}  // namespace hone::models
