// InternVL's vision tower.
#include "models/internvl_tower.h"

#include <ATen/ATen.h>

#include "models/tower_block.h"

namespace hone::models {
namespace {

constexpr double kQueryEps = 1e-6;

}  // namespace

nn::Linear& InternVlBlock::Attention::product(const char* name, bool bias) {
  return child<nn::Linear>(name, s.hidden, s.hidden, nn::Linear::Options{.bias = bias, .std = c.initializer_range});
}

const nn::RmsNorm* InternVlBlock::Attention::maybe_norm(const char* name) {
  return c.use_qk_norm ? &child<nn::RmsNorm>(name, s.hidden, ops::RmsNormForm{kQueryEps}) : nullptr;
}

InternVlBlock::Attention::Attention(const InternVlVisionConfig& config, const InternVlVisionShape& shape)
    : c(config),
      s(shape),
      q_proj(product("q_proj", c.attention_bias)),
      k_proj(product("k_proj", c.attention_bias)),
      v_proj(product("v_proj", c.attention_bias)),
      projection_layer(product("projection_layer", true)),
      q_norm(maybe_norm("q_norm")),
      k_norm(maybe_norm("k_norm")) {}

Tensor InternVlBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  const auto qkv = nn::linears(x_1PD, {&q_proj, &k_proj, &v_proj}, pass);
  const auto heads = [&](const Tensor& x, const nn::RmsNorm* norm) {
    return (norm ? (*norm)(x) : x).view({-1, s.heads, s.head_size()});
  };
  const Tensor seen_PHK = attend_in_tower(heads(qkv[0], q_norm), heads(qkv[1], k_norm), heads(qkv[2], nullptr), view,
                                          c.attention_dropout, pass);
  return projection_layer(seen_PHK.flatten(1).unsqueeze(0), pass);
}

const nn::Norm& InternVlBlock::norm(const char* name, const InternVlVisionConfig& c, const InternVlVisionShape& s) {
  if (s.has_rms_norms) return child<nn::RmsNorm>(name, s.hidden, ops::RmsNormForm{c.layer_norm_eps});
  return child<nn::LayerNorm>(name, s.hidden, c.layer_norm_eps);
}

Weight& InternVlBlock::factor(const char* name, const InternVlVisionConfig& c) {
  return parameter(name, {c.hidden_size},
                   {.kind = Init::Kind::ramp, .first = c.layer_scale_init_value, .last = c.layer_scale_init_value});
}

InternVlBlock::InternVlBlock(const InternVlVisionConfig& c, const InternVlVisionShape& s, std::int64_t layer)
    : layer_(layer),
      lambda_1(factor("lambda_1", c)),
      lambda_2(factor("lambda_2", c)),
      attention(child<Attention>("attention", c, s)),
      mlp(child<TowerMlp>("mlp", TowerMlp::Options{s.hidden, s.inner, c.hidden_act, c.initializer_range,
                                                   c.initializer_range})),
      layernorm_before(norm("layernorm_before", c, s)),
      layernorm_after(norm("layernorm_after", c, s)) {}

void InternVlBlock::add_to(nn::Residual& x, const TowerView& given, const Pass& pass) const {
  TowerView view = given;
  view.layer = layer_;
  x += attention(layernorm_before(x), view, pass) * lambda_1.use();
  x += mlp(layernorm_after(x), pass) * lambda_2.use();
}

InternVlTower::Embeddings::Embeddings(const InternVlVisionConfig& c, const InternVlVisionShape& shape)
    : s(shape),
      cls_token(parameter("cls_token", {1, 1, s.hidden}, {.kind = Init::Kind::zeros})),
      position_embeddings(c.use_absolute_position_embeddings
                              ? &parameter("position_embeddings", {1, s.positions(), s.hidden},
                                           {.kind = Init::Kind::zeros})
                              : nullptr),
      projection(child<PatchProduct>("patch_embeddings.projection",
                                     std::vector<std::int64_t>{s.hidden, 3, s.patch, s.patch}, /*with_bias=*/true,
                                     c.initializer_range)) {
  if (c.use_mask_token)
    parameter("mask_token", {1, 1, s.hidden}, {.kind = Init::Kind::zeros}).set_trainable(false);
}

Tensor InternVlTower::Embeddings::operator()(const Tensor& patches_PV) const {
  const Tensor patches_ISD = projection(patches_PV).view({-1, s.positions() - 1, s.hidden});
  const Tensor first_ISD = cls_token.use().expand({patches_ISD.size(0), 1, s.hidden});
  const Tensor all_ISD = at::cat({first_ISD, patches_ISD}, 1);
  return position_embeddings ? all_ISD + position_embeddings->use() : all_ISD;
}

InternVlTower::InternVlTower(const InternVlVisionConfig& config, const InternVlVisionShape& shape)
    : c(config),
      s(shape),
      embeddings(child<Embeddings>("embeddings", c, s)),
      blocks(child<nn::Stack<InternVlBlock>>("encoder.layer", s.layers, c, s)),
      layernorm(c.use_mean_pooling ? nullptr : &child<nn::LayerNorm>("layernorm", s.hidden, c.layer_norm_eps)) {}

Tensor InternVlTower::operator()(const Tensor& patches_PV, const Pass& pass) const {
  const Tensor embedded_ISD = embeddings(patches_PV);
  const std::int64_t tiles = embedded_ISD.size(0);
  const TowerView view{.documents = each_picture(tiles, s.positions())};
  Tensor x_1PD = embedded_ISD.view({1, -1, s.hidden});
  for (const InternVlBlock* block : blocks.blocks())
    x_1PD = through_block(x_1PD, pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); });
  return (layernorm ? (*layernorm)(x_1PD) : x_1PD).view({tiles, s.positions(), s.hidden});
}

}  // namespace hone::models
