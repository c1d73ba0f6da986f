// What config.json says of a SigLIP vision tower.
#include "models/siglip_config.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "models/quick_gelu.h"
#include "nn/rope.h"

namespace hone::models {

using config::Node;

namespace {

constexpr std::string_view kSiglip = "siglip_vision_model", kSiglip2 = "siglip2_vision_model";

// Of the square of positions that lies over every picture.
std::int64_t side_of_positions(const SiglipConfig& c, Problems& problems) {
  const std::int64_t all = c.num_patches.value_or(256);
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(all))));
  problems.require(side * side == all, "num_patches", fmt::format("got {}, expected the square of a number", all));
  return side;
}

}  // namespace

SiglipShape resolve(const SiglipConfig& c, const std::string& type, Problems& problems) {
  const bool second = type == kSiglip2, plain = second || type == kSiglip;
  const std::string older = plain ? type : type.substr(0, type.find('_'));
  problems.require(c.model_type == type || c.model_type == older, "model_type",
                   fmt::format("got \"{}\", expected {}", c.model_type, type));
  SiglipShape s;
  s.model_type = type;
  s.layers = c.num_hidden_layers, s.image = c.image_size, s.patch = c.patch_size.value_or(plain ? 16 : 32);
  problems.require(second || !c.num_patches, "num_patches", fmt::format("{} has no such key", type));
  if (second) s.image = side_of_positions(c, problems) * s.patch, s.any_size = true;
  TowerBlockShape& b = s.block;
  b.hidden = c.hidden_size.value_or(plain ? 768 : 1152), b.heads = c.num_attention_heads.value_or(plain ? 12 : 16);
  b.inner = c.intermediate_size, b.eps = c.layer_norm_eps, b.dropout = c.attention_dropout;
  b.activation = c.hidden_act;
  problems.require(b.hidden % b.heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads ({})", b.hidden, b.heads));
  problems.require(c.num_channels == 3, "num_channels", fmt::format("got {}, expected 3", c.num_channels));
  problems.require(s.patch <= s.image, "patch_size",
                   fmt::format("got {}, expected at most image_size ({})", s.patch, s.image));
  problems.require(plain || !c.vision_use_head, "vision_use_head", fmt::format("{} has no such key", type));
  Activated(c.hidden_act, "hidden_act", problems);
  s.has_head = plain && c.vision_use_head.value_or(true);
  s.by_buckets = !plain;
  const double wide = static_cast<double>(b.hidden), inner = static_cast<double>(b.inner);
  const double values = 3 * static_cast<double>(s.patch * s.patch);
  const auto xavier = [](double in, double out) { return std::sqrt(2 / (in + out)); };
  b.qkv_std = b.out_std = plain ? xavier(wide, wide) : c.initializer_range;
  b.up_std = b.down_std = plain ? xavier(wide, inner) : c.initializer_range;
  s.patch_std = plain ? 1 / std::sqrt(values) : c.initializer_range;
  s.position_std = plain ? 1 / std::sqrt(wide) : c.initializer_range;
  check_parameters(static_cast<double>(s.layers) * wide * (4 * wide + 2 * inner), "hidden_size", problems);
  return s;
}

Node to_hf_config(const SiglipConfig& c, const SiglipShape& s, const std::string& dtype) {
  Node node = Node::map();
  const bool plain = s.model_type == kSiglip || s.any_size;
  node.at_or_add("attention_dropout") = nn::hf_float(c.attention_dropout);
  if (!dtype.empty()) node.at_or_add("dtype") = Node::scalar(dtype, /*quoted=*/true);
  node.at_or_add("hidden_act") = Node::scalar(c.hidden_act, /*quoted=*/true);
  node.at_or_add("hidden_size") = hf_number(s.block.hidden);
  if (!s.any_size) node.at_or_add("image_size") = hf_number(s.image);
  if (!plain) node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("intermediate_size") = hf_number(s.block.inner);
  node.at_or_add("layer_norm_eps") = nn::hf_float(c.layer_norm_eps);
  node.at_or_add("model_type") = Node::scalar(s.model_type, /*quoted=*/true);
  node.at_or_add("num_attention_heads") = hf_number(s.block.heads);
  node.at_or_add("num_channels") = hf_number(c.num_channels);
  node.at_or_add("num_hidden_layers") = hf_number(s.layers);
  if (s.any_size) node.at_or_add("num_patches") = hf_number(s.positions());
  node.at_or_add("patch_size") = hf_number(s.patch);
  if (plain) node.at_or_add("vision_use_head") = hf_flag(s.has_head);
  return node;
}

}  // namespace hone::models
