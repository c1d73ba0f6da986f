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

TowerBlockShape shape_of(const ClipConfig& c) {
  return {.hidden = c.hidden_size,
          .inner = c.intermediate_size,
          .heads = c.num_attention_heads,
          .eps = c.layer_norm_eps,
          .dropout = c.attention_dropout,
          .activation = c.hidden_act,
          .qkv_std = narrowed(c),
          .out_std = deviation(c),
          .up_std = c.initializer_factor / std::sqrt(2.0 * static_cast<double>(c.hidden_size)),
          .down_std = narrowed(c)};
}

}  // namespace

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
      shape_(shape_of(config)),
      layers_(std::move(layers)),
      embeddings(child<Embeddings>("embeddings", c)),
      pre_layrnorm(child<nn::LayerNorm>("pre_layrnorm", c.hidden_size, c.layer_norm_eps)),
      blocks(child<nn::Stack<TowerBlock>>("encoder.layers", c.num_hidden_layers, shape_)),
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
  for (const TowerBlock* block : blocks.blocks()) {
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
