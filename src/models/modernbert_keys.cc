// Reading and writing what ModernBERT and its decoder say alike.
#include "models/modernbert_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kOfAll = "full_attention", *kOfNear = "sliding_attention";

}  // namespace

std::vector<bool> modern_layers(std::int64_t count, std::optional<std::int64_t> global_every,
                                const std::optional<std::vector<std::string>>& layer_types, Problems& problems) {
  std::vector<bool> slides;
  const auto layers = std::min<std::int64_t>(count, 10000);
  for (std::int64_t i = 0; i < layers; ++i) slides.push_back(i % global_every.value_or(3) != 0);
  if (!layer_types) return slides;
  problems.require(std::ssize(*layer_types) == layers, "layer_types",
                   fmt::format("got {}, expected one for each of {}", counted(std::ssize(*layer_types), "layer"),
                               counted(layers, "layer")));
  for (std::size_t i = 0; i < std::min(layer_types->size(), slides.size()); ++i) {
    const std::string& type = (*layer_types)[i];
    problems.require(type == kOfAll || type == kOfNear, "layer_types",
                     fmt::format("got {}, expected {} or {}", hone::quoted(type), kOfAll, kOfNear));
    slides[i] = type == kOfNear;
  }
  return slides;
}

ModernRopes modern_ropes(const ModernRopeKeys& keys, Problems& problems) {
  const Node& both = keys.parameters;
  problems.require(both.is_null() || both.is_map(), "rope_parameters", "expected a section");
  if (both.is_map())
    for (const auto& [key, value] : both.entries())
      problems.require(key == kOfAll || key == kOfNear, "rope_parameters",
                       fmt::format("got {}, expected sections {} and {}", hone::quoted(key), kOfAll, kOfNear));
  const auto read = [&](const char* key, std::optional<double> theta, double usual) {
    const Node* found = both.is_map() ? both.find(key) : nullptr;
    return nn::read_rope({.parameters = found && !found->is_null() ? found : nullptr,
                          .scaling = nullptr,
                          .theta = theta,
                          .partial_rotary_factor = {},
                          .default_theta = usual,
                          .original_max_position_embeddings = {},
                          .head_size = keys.head_size,
                          .max_positions = keys.max_positions},
                         problems);
  };
  return {read(kOfAll, keys.global_theta, 160000), read(kOfNear, keys.local_theta, 10000)};
}

Node modern_layer_keys(const std::vector<bool>& slides, const ModernRopes& ropes) {
  Node keys = Node::map();
  std::vector<Node> types;
  for (const bool one : slides) types.push_back(Node::scalar(one ? kOfNear : kOfAll, /*quoted=*/true));
  keys.at_or_add("layer_types") = Node::list(std::move(types));
  Node& sections = keys.at_or_add("rope_parameters");
  sections.at_or_add(kOfAll) = nn::write_rope(ropes.all);
  sections.at_or_add(kOfNear) = nn::write_rope(ropes.sliding);
  return keys;
}

}  // namespace hone::models
