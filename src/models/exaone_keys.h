// Which layers slide in EXAONE's families, beside the keys of B.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "models/llama_config.h"

namespace hone::models {

template <class B>
struct ExaoneKeys : B {
  using Base = B;
  config::Open sliding_window_pattern{config::Node::scalar("default")};

  static constexpr auto fields() {
    using C = ExaoneKeys;
    return std::tuple_cat(
        B::fields(),
        std::tuple{field("sliding_window_pattern", &C::sliding_window_pattern,
                         "Without layer_types, every how manieth layer sees all; default 4. With it, no matter.")});
  }
};

inline bool lets_slide(const LlamaConfig& c) {
  return is_default(c.sliding_window) || !c.sliding_window.node.is_null();
}

template <class C>
std::vector<std::string> types_by_pattern(const C& c, Problems& problems) {
  std::int64_t pattern = 4;
  const config::Node& given = c.sliding_window_pattern.node;
  if (lets_slide(c) && !is_default(c.sliding_window_pattern))
    config::Values<std::int64_t>::read(given, pattern, {problems, "sliding_window_pattern", {.low = 1, .high = 10000}});
  std::vector<std::string> types;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(32), 10000);
  for (std::int64_t i = 1; i <= layers; ++i)
    types.push_back(lets_slide(c) && i % pattern != 0 ? "sliding_attention" : "full_attention");
  return types;
}

// c: ExaoneKeys of something, which then lists its layers.
template <class C>
C with_types(const C& given, Problems& problems) {
  C c = given;
  if (!c.layer_types) c.layer_types = types_by_pattern(given, problems);
  return c;
}

// Where there are windows, layers without one are not rotated.
inline void leave_unrotated(const LlamaConfig& c, LlamaShape& s) {
  if (lets_slide(c))
    for (const std::int64_t window : s.windows) s.unrotated.push_back(window == 0);
}

template <class C>
void write_pattern(const C& c, config::Node& node) {
  node.at_or_add("sliding_window_pattern") = lets_slide(c) && !is_default(c.sliding_window_pattern)
                                                 ? c.sliding_window_pattern.node
                                                 : config::Values<std::int64_t>::write(lets_slide(c) ? 4 : 0);
}

}  // namespace hone::models
