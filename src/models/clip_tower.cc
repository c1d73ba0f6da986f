// CLIP's vision tower.
#include "models/clip_tower.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hone::models {
namespace {

double deviation(const ClipConfig& c) { return c.initializer_factor / std::sqrt(static_cast<double>(c.hidden_size)); }

// Of products that the residual stream grows by, or that read it, in transformers' way.
double narrowed(const ClipConfig& c) {
  return deviation(c) / std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers));
}

ops::Documents each_picture(std::int64_t pictures, std::int64_t positions) {
  std::vector<ops::Span> spans;
  for (std::int64_t i = 0; i < pictures; ++i) spans.push_back({i * positions, (i + 1) * positions});
  return spans;
}

}  // namespace

ClipBlock::Attention::Attention(const ClipConfig& config)
    : c(config),
      k_proj(child<nn::Linear>("k_proj", c.hidden_size, c.hidden_size,
                               nn::Linear::Options{.bias = true, .std = narrowed(c)})),
      v_proj(child<nn::Linear>("v_proj", c.hidden_size, c.hidden_size,
                               nn::Linear::Options{.bias = true, .std = narrowed(c)})),
      q_proj(child<nn::Linear>("q_proj", c.hidden_size, c.hidden_size,
                               nn::Linear::Options{.bias = true, .std = narrowed(c)})),
      out_proj(child<nn::Linear>("out_proj", c.hidden_size, c.hidden_size,
                                 nn::Linear::Options{.bias = true, .std = deviation(c)})) {}

Tensor ClipBlock::Attention::operator()(const nn::Input& x_1PD, const TowerView& view, const Pass& pass) const {
  const auto qkv = nn::linears(x_1PD, {&q_proj, &k_proj, &v_proj}, pass);
  const auto heads = [&](const Tensor& x) { return x.view({-1, c.num_attention_heads, c.head_size()}); };
  const Tensor seen_PHK = attend_in_tower(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), view, c.attention_dropout, pass);
  return out_proj(seen_PHK.flatten(1).unsqueeze(0), pass);
}

ClipBlock::ClipBlock(const ClipConfig& c, std::int64_t layer)
    : layer_(layer),
      self_attn(child<Attention>("self_attn", c)),
      layer_norm1(child<nn::LayerNorm>("layer_norm1", c.hidden_size, c.layer_norm_eps)),
      mlp(child<TowerMlp>(
          "mlp",
          TowerMlp::Options{c.hidden_size, c.intermediate_size, c.hidden_act,
                            c.initializer_factor / std::sqrt(2.0 * static_cast<double>(c.hidden_size)), narrowed(c)})),
      layer_norm2(child<nn::LayerNorm>("layer_norm2", c.hidden_size, c.layer_norm_eps)) {}

void ClipBlock::add_to(nn::Residual& x, const TowerView& given, const Pass& pass) const {
  TowerView view = given;
  view.layer = layer_;
  x += self_attn(layer_norm1(x), view, pass);
  x += mlp(layer_norm2(x), pass);
}

ClipTower::Embeddings::Embeddings(const ClipConfig& config)
    : c(config),
      class_embedding(parameter("class_embedding", {c.hidden_size}, {.std = deviation(c)})),
      patch_embedding(child<PatchProduct>("patch_embedding",
                                          std::vector<std::int64_t>{c.hidden_size, 3, c.patch_size, c.patch_size},
                                          /*with_bias=*/false, c.initializer_range * c.initializer_factor)),
      position_embedding(child<PositionTable>("position_embedding", c.positions(), c.hidden_size,
                                              c.initializer_range * c.initializer_factor)) {}

Tensor ClipTower::Embeddings::operator()(const Tensor& patches_PV) const {
  const Tensor patches_ISD = patch_embedding(patches_PV).view({-1, c.positions() - 1, c.hidden_size});
  const Tensor first_ISD = class_embedding.use().expand({patches_ISD.size(0), 1, c.hidden_size});
  return at::cat({first_ISD, patches_ISD}, 1) + position_embedding.weight.use();
}

ClipTower::ClipTower(const ClipConfig& config, std::vector<std::int64_t> layers)
    : c(config),
      layers_(std::move(layers)),
      embeddings(child<Embeddings>("embeddings", c)),
      pre_layrnorm(child<nn::LayerNorm>("pre_layrnorm", c.hidden_size, c.layer_norm_eps)),
      blocks(child<nn::Stack<ClipBlock>>("encoder.layers", c.num_hidden_layers, c)),
      post_layernorm(child<nn::LayerNorm>("post_layernorm", c.hidden_size, c.layer_norm_eps)) {
  const std::int64_t last = *std::max_element(layers_.begin(), layers_.end());
  const auto is_behind = [&](const std::string& name) {
    for (std::int64_t i = last; i < c.num_hidden_layers; ++i)
      if (name.starts_with(fmt::format("encoder.layers.{}.", i))) return true;
    return name.starts_with("post_layernorm.");
  };
  each_weight([&](const std::string& name, Weight& weight) {
    if (is_behind(name)) weight.set_trainable(false);
  });
}

std::vector<Tensor> ClipTower::operator()(const Tensor& patches_PV, const Pass& pass) const {
  const Tensor embedded_ISD = pre_layrnorm(embeddings(patches_PV));
  const std::int64_t pictures = embedded_ISD.size(0);
  const TowerView view{.documents = each_picture(pictures, c.positions())};
  std::vector<Tensor> states{embedded_ISD.view({1, -1, c.hidden_size})};
  const std::int64_t last = *std::max_element(layers_.begin(), layers_.end());
  for (const ClipBlock* block : blocks.blocks()) {
    if (std::ssize(states) > last) break;
    states.push_back(
        through_block(states.back(), pass, [block, view, &pass](nn::Residual& x) { block->add_to(x, view, pass); }));
  }
  std::vector<Tensor> made;
  for (const std::int64_t layer : layers_)
    made.push_back(states[static_cast<std::size_t>(layer)].view({pictures, c.positions(), c.hidden_size}));
  return made;
}

}  // namespace hone::models
