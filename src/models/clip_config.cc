// What config.json says of a CLIP vision tower.
#include "models/clip_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "models/quick_gelu.h"
#include "nn/rope.h"

namespace hone::models {

using config::Node;

void ClipConfig::validate(Problems& problems) const {
  problems.require(model_type == "clip_vision_model", "model_type",
                   fmt::format("got \"{}\", expected clip_vision_model", model_type));
  problems.require(
      hidden_size % num_attention_heads == 0, "hidden_size",
      fmt::format("got {}, expected a multiple of num_attention_heads ({})", hidden_size, num_attention_heads));
  problems.require(num_channels == 3, "num_channels", fmt::format("got {}, expected 3", num_channels));
  problems.require(patch_size <= image_size, "patch_size",
                   fmt::format("got {}, expected at most image_size ({})", patch_size, image_size));
  Activated(hidden_act, "hidden_act", problems);
  const double wide = static_cast<double>(hidden_size), inner = static_cast<double>(intermediate_size);
  check_parameters(static_cast<double>(num_hidden_layers) * wide * (4 * wide + 2 * inner), "hidden_size", problems);
}

Node to_hf_config(const ClipConfig& c, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("attention_dropout") = nn::hf_float(c.attention_dropout);
  if (!dtype.empty()) node.at_or_add("dtype") = Node::scalar(dtype, /*quoted=*/true);
  node.at_or_add("hidden_act") = Node::scalar(c.hidden_act, /*quoted=*/true);
  node.at_or_add("hidden_size") = hf_number(c.hidden_size);
  node.at_or_add("image_size") = hf_number(c.image_size);
  node.at_or_add("initializer_factor") = nn::hf_float(c.initializer_factor);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("intermediate_size") = hf_number(c.intermediate_size);
  node.at_or_add("layer_norm_eps") = nn::hf_float(c.layer_norm_eps);
  node.at_or_add("model_type") = Node::scalar(c.model_type, /*quoted=*/true);
  node.at_or_add("num_attention_heads") = hf_number(c.num_attention_heads);
  node.at_or_add("num_channels") = hf_number(c.num_channels);
  node.at_or_add("num_hidden_layers") = hf_number(c.num_hidden_layers);
  node.at_or_add("patch_size") = hf_number(c.patch_size);
  node.at_or_add("projection_dim") = hf_number(c.projection_dim);
  if (c.vocab_size) node.at_or_add("vocab_size") = hf_number(*c.vocab_size);
  return node;
}

}  // namespace hone::models
