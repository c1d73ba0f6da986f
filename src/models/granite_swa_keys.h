// What config.json says of Granite's layers that see a window, or are rotated by a base of their own, beside the keys
// of B; and what it means.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "models/granite_keys.h"

namespace hone::models {

template <class B>
struct GraniteSwaKeys : B {
  using Base = B;
  std::optional<std::vector<double>> layer_rope_theta;

  static constexpr auto fields() {
    return std::tuple_cat(B::fields(),
                          std::tuple{field("layer_rope_theta", &GraniteSwaKeys::layer_rope_theta,
                                           "granite_swa, granitemoe_swa: base of each layer's rotary frequencies; 0: "
                                           "it is not rotated. Default: what rope_parameters says, for all.",
                                           config::Range{.low = 0, .high = 1e15})});
  }
};

// What transformers takes for keys that are absent.
template <class C>
C with_granite_windows(const C& given) {
  constexpr std::int64_t kSeesAll = 4;  // every how manieth layer, from the first one on
  C c = given;
  const std::int64_t layers =
      std::min<std::int64_t>(c.num_hidden_layers.value_or(family_of(c.model_type)->layers), 10000);
  if (!c.layer_types) {
    c.layer_types.emplace();
    for (std::int64_t i = 0; i < layers; ++i)
      c.layer_types->push_back(i % kSeesAll == 0 ? "full_attention" : "sliding_attention");
  }
  if (is_default(c.sliding_window)) c.sliding_window.node = config::Node::scalar("128");
  return c;
}

template <class C>
void read_granite_windows(const C& c, LlamaShape& s, Problems& problems) {
  s.sinks = true;
  if (!c.layer_rope_theta) return;
  problems.require(std::ssize(*c.layer_rope_theta) == s.layers, "layer_rope_theta",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", c.layer_rope_theta->size(),
                               s.layers));
  s.thetas = *c.layer_rope_theta;
  s.thetas.resize(s.windows.size());
  for (const double theta : s.thetas) s.unrotated.push_back(theta == 0);
}

template <class S>
void write_thetas(const S& s, config::Node& node) {
  std::vector<config::Node> all;
  for (std::size_t i = 0; i < s.windows.size(); ++i)
    all.push_back(nn::hf_float(s.thetas.empty() ? s.rope.rope_theta : s.thetas[i]));
  node.at_or_add("layer_rope_theta") = config::Node::list(std::move(all));
}

}  // namespace hone::models
