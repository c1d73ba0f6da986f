// What config.json says of Pixtral's vision tower.
#include "models/pixtral_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

// Of `type`, as older files have it, or rope_type; both may stand there.
double read_axial_rope(const PixtralConfig& c, Problems& problems) {
  double theta = c.rope_theta.value_or(10000);
  const Node& rope = c.rope_parameters.node;
  if (rope.is_null()) return theta;
  problems.require(rope.is_map(), "rope_parameters", "expected a section");
  if (!rope.is_map()) return theta;
  for (const auto& [key, value] : rope.entries()) {
    const std::string path = "rope_parameters." + key;
    if (key == "rope_theta") {
      config::Values<double>::read(value, theta, {problems, path, {.low = 1, .high = 1e15}});
    } else if (key == "rope_type" || key == "type") {
      const bool fits = value.kind() == Node::Kind::scalar && (value.text() == "axial" || value.text() == "default");
      problems.require(fits, path, "expected axial, or default, which means the same here");
    } else {
      problems.add(path, "no such option", "", value.mark());
    }
  }
  return theta;
}

}  // namespace

PixtralShape resolve(const PixtralConfig& c, Problems& problems) {
  PixtralShape s;
  problems.require(c.model_type == "pixtral", "model_type", fmt::format("got \"{}\", expected pixtral", c.model_type));
  s.hidden = c.hidden_size, s.inner = c.intermediate_size, s.layers = c.num_hidden_layers;
  s.heads = c.num_attention_heads, s.patch = c.patch_size;
  s.activation = c.hidden_act, s.dropout = c.attention_dropout, s.std = c.initializer_range;
  problems.require(s.hidden % s.heads == 0 && s.head_size() % 4 == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of four times num_attention_heads ({}): half of a head "
                               "turns by rows, half by columns",
                               s.hidden, s.heads));
  problems.require(!c.head_dim || *c.head_dim == s.head_size(), "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({})", c.head_dim.value_or(0),
                               s.head_size()));
  problems.require(c.num_channels == 3, "num_channels", fmt::format("got {}, expected 3", c.num_channels));
  nn::read_activation(c.hidden_act, "hidden_act", problems);
  s.theta = read_axial_rope(c, problems);
  const double wide = static_cast<double>(s.hidden), inner = static_cast<double>(s.inner);
  check_parameters(static_cast<double>(s.layers) * wide * (4 * wide + 3 * inner), "hidden_size", problems);
  return s;
}

Node to_hf_config(const PixtralConfig& c, const PixtralShape& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("attention_dropout") = nn::hf_float(c.attention_dropout);
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  node.at_or_add("head_dim") = hf_number(s.head_size());
  node.at_or_add("hidden_act") = hf_text(s.activation);
  node.at_or_add("hidden_size") = hf_number(s.hidden);
  node.at_or_add("image_size") = hf_number(c.image_size);
  node.at_or_add("initializer_range") = nn::hf_float(c.initializer_range);
  node.at_or_add("intermediate_size") = hf_number(s.inner);
  node.at_or_add("model_type") = hf_text("pixtral");
  node.at_or_add("num_attention_heads") = hf_number(s.heads);
  node.at_or_add("num_channels") = hf_number(c.num_channels);
  node.at_or_add("num_hidden_layers") = hf_number(s.layers);
  node.at_or_add("patch_size") = hf_number(s.patch);
  Node rope = Node::map();
  rope.at_or_add("rope_theta") = nn::hf_float(s.theta);
  rope.at_or_add("rope_type") = hf_text("axial");
  node.at_or_add("rope_parameters") = std::move(rope);
  return node;
}

}  // namespace hone::models
