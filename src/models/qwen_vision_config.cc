// What config.json says of the vision towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.
#include "models/qwen_vision_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <utility>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "models/quick_gelu.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kPlainTower = "qwen2_vl_vision", *kWindowedTower = "qwen2_5_vl_vision";
constexpr std::array kDeepTowers{"qwen3_vl_vision", "qwen3_vl_moe_vision"};
constexpr std::array kShallowTowers{"qwen3_5_vision", "qwen3_5_moe_vision"};

// Older files name the whole.
std::string tower_type_of(const QwenVisionConfig& c) {
  return c.model_type.ends_with("_vision") ? c.model_type : c.model_type + "_vision";
}

bool is_tower_of(const std::string& type, const std::array<const char*, 2>& types) {
  return type == types[0] || type == types[1];
}

// Keys of the others.
void refuse_others(const QwenVisionConfig& c, const QwenVisionShape& s, Problems& problems) {
  const auto refuse = [&](bool given, const char* key) {
    problems.require(!given, key, fmt::format("{} has no such key", s.type));
  };
  const bool plain = !s.windows && !s.learned;
  refuse(c.embed_dim && !plain, "embed_dim");
  refuse(c.mlp_ratio && !plain, "mlp_ratio");
  refuse(c.out_hidden_size && plain, "out_hidden_size");
  refuse(c.intermediate_size && plain, "intermediate_size");
  refuse(c.window_size && !s.windows, "window_size");
  refuse(c.fullatt_block_indexes && !s.windows, "fullatt_block_indexes");
  refuse(c.num_position_embeddings && !s.learned, "num_position_embeddings");
  const bool is_empty = s.learned && c.deepstack_visual_indexes && c.deepstack_visual_indexes->empty();
  refuse(c.deepstack_visual_indexes && !s.deep && !is_empty, "deepstack_visual_indexes");
}

void read_learned_positions(const QwenVisionConfig& c, QwenVisionShape& s, Problems& problems) {
  const std::int64_t positions = c.num_position_embeddings.value_or(2304);
  s.side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(positions)));
  problems.require(s.side * s.side == positions, "num_position_embeddings",
                   fmt::format("got {}, expected a square number", positions));
  s.fc1 = "linear_fc1", s.fc2 = "linear_fc2";
  if (!s.deep) return;
  s.deep_blocks = c.deepstack_visual_indexes.value_or(std::vector<std::int64_t>{8, 16, 24});
  for (const std::int64_t block : s.deep_blocks)
    problems.require(block < s.depth, "deepstack_visual_indexes",
                     fmt::format("got {}, expected less than depth ({})", block, s.depth));
}

}  // namespace

double axial_theta(const config::Open& rope, Problems& problems) {
  double theta = 10000;
  if (rope.node.is_null()) return theta;
  if (!rope.node.is_map()) {
    problems.add("rope_parameters", "expected a section", "", rope.node.mark());
    return theta;
  }
  for (const auto& [key, value] : rope.node.entries()) {
    const std::string path = "rope_parameters." + key;
    if (key == "rope_theta")
      config::Values<double>::read(value, theta, {problems, path, {.low = 1, .high = 1e15}});
    else if (key != "rope_type" || value.kind() != Node::Kind::scalar || value.text() != "axial")
      problems.add(path, "expected rope_type axial and a rope_theta", "", value.mark());
  }
  return theta;
}

Node write_axial(double theta) {
  Node rope = Node::map();
  rope.at_or_add("rope_theta") = nn::hf_float(theta);
  rope.at_or_add("rope_type") = Node::scalar("axial", /*quoted=*/true);
  return rope;
}

std::vector<std::int64_t> full_blocks(const QwenVisionConfig& c) {
  return c.fullatt_block_indexes.value_or(std::vector<std::int64_t>{7, 15, 23, 31});
}

QwenVisionShape resolve(const QwenVisionConfig& c, Problems& problems) {
  QwenVisionShape s;
  s.type = tower_type_of(c);
  s.windows = s.type == kWindowedTower, s.deep = is_tower_of(s.type, kDeepTowers);
  s.learned = s.deep || is_tower_of(s.type, kShallowTowers);
  problems.require(s.windows || s.learned || s.type == kPlainTower, "model_type",
                   fmt::format("got \"{}\", expected {}, {}, {} or {}", c.model_type, kPlainTower, kWindowedTower,
                               fmt::join(kDeepTowers, ", "), fmt::join(kShallowTowers, ", ")));
  const bool plain = !s.windows && !s.learned;
  s.hidden = plain ? c.embed_dim.value_or(1280) : c.hidden_size.value_or(s.learned ? 1152 : 3584);
  s.out = plain ? c.hidden_size.value_or(3584) : c.out_hidden_size.value_or(3584);
  s.inner = plain ? c.mlp_ratio.value_or(4) * s.hidden : c.intermediate_size.value_or(s.learned ? 4304 : 3420);
  refuse_others(c, s, problems);
  s.heads = c.num_heads, s.depth = c.depth.value_or(s.learned ? 27 : 32),
  s.patch = c.patch_size.value_or(s.learned ? 16 : 14);
  s.merge = c.spatial_merge_size, s.frames = c.temporal_patch_size;
  s.std = c.initializer_range;
  s.activation = c.hidden_act.value_or(s.windows ? "silu" : s.learned ? "gelu_pytorch_tanh" : "quick_gelu");
  if (s.windows)
    nn::read_activation(s.activation, "hidden_act", problems);
  else
    Activated(s.activation, "hidden_act", problems);
  s.theta = axial_theta(c.rope_parameters, problems);
  for (const auto& [key, channels] : {std::pair{"in_channels", c.in_channels}, {"in_chans", c.in_chans}})
    problems.require(channels.value_or(3) == 3, key, fmt::format("got {}, expected 3", channels.value_or(3)));
  problems.require(s.hidden % s.heads == 0 && (s.hidden / s.heads) % 4 == 0, plain ? "embed_dim" : "hidden_size",
                   fmt::format("got {}, expected num_heads ({}) times a multiple of 4", s.hidden, s.heads));
  s.window = c.window_size.value_or(112) / s.merge / s.patch;
  problems.require(
      !s.windows || s.window > 0, "window_size",
      fmt::format("got {}, expected at least {}, a token's side", c.window_size.value_or(112), s.merge * s.patch));
  s.sees_all.assign(static_cast<std::size_t>(s.depth), !s.windows);
  for (const std::int64_t block : full_blocks(c))
    if (s.windows && block < s.depth) s.sees_all[static_cast<std::size_t>(block)] = true;
  if (s.learned) read_learned_positions(c, s, problems);
  const double wide = static_cast<double>(s.hidden), inner = static_cast<double>(s.inner);
  check_parameters(static_cast<double>(s.depth) * wide * (4 * wide + 3 * inner), "hidden_size", problems);
  return s;
}

void QwenVisionConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const QwenVisionConfig& c, const QwenVisionShape& s, const std::string& dtype) {
  Node node = Node::map();
  const auto list = [](const std::vector<std::int64_t>& values) {
    return config::Values<std::vector<std::int64_t>>::write(values);
  };
  const bool plain = !s.windows && !s.learned;
  if (s.deep) node.at_or_add("deepstack_visual_indexes") = list(s.deep_blocks);
  node.at_or_add("depth") = hf_number(s.depth);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  if (plain) node.at_or_add("embed_dim") = hf_number(s.hidden);
  if (s.windows) node.at_or_add("fullatt_block_indexes") = list(full_blocks(c));
  node.at_or_add("hidden_act") = hf_text(s.activation);
  node.at_or_add("hidden_size") = hf_number(plain ? s.out : s.hidden);
  node.at_or_add("in_channels") = hf_number(3);
  node.at_or_add("initializer_range") = nn::hf_float(s.std);
  if (!plain) node.at_or_add("intermediate_size") = hf_number(s.inner);
  if (plain) node.at_or_add("mlp_ratio") = hf_number(c.mlp_ratio.value_or(4));
  node.at_or_add("model_type") = hf_text(s.type);
  node.at_or_add("num_heads") = hf_number(s.heads);
  if (s.learned) node.at_or_add("num_position_embeddings") = hf_number(s.side * s.side);
  if (!plain) node.at_or_add("out_hidden_size") = hf_number(s.out);
  node.at_or_add("patch_size") = hf_number(s.patch);
  node.at_or_add("rope_parameters") = write_axial(s.theta);
  node.at_or_add("spatial_merge_size") = hf_number(s.merge);
  node.at_or_add("temporal_patch_size") = hf_number(s.frames);
  if (s.windows) node.at_or_add("tokens_per_second") = hf_number(c.tokens_per_second.value_or(4));
  if (s.windows) node.at_or_add("window_size") = hf_number(c.window_size.value_or(112));
  return node;
}

}  // namespace hone::models
