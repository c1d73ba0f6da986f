// From config.json of ModernBERT to what it means, and of that what is written otherwise.
#include "models/modernbert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kSeesAll = "full_attention", *kSlides = "sliding_attention";

std::vector<bool> read_layers(const ModernBertConfig& c, Problems& problems) {
  std::vector<bool> slides;
  const auto layers = std::min<std::int64_t>(c.num_hidden_layers, 10000);
  const std::int64_t every = c.global_attn_every_n_layers.value_or(3);
  for (std::int64_t i = 0; i < layers; ++i) slides.push_back(i % every != 0);
  if (!c.layer_types) return slides;
  problems.require(std::ssize(*c.layer_types) == layers, "layer_types",
                   fmt::format("got {}, expected one for each of {}", counted(std::ssize(*c.layer_types), "layer"),
                               counted(layers, "layer")));
  slides.clear();
  for (const std::string& type : *c.layer_types) {
    problems.require(type == kSeesAll || type == kSlides, "layer_types",
                     fmt::format("got {}, expected {} or {}", hone::quoted(type), kSeesAll, kSlides));
    slides.push_back(type == kSlides);
  }
  return slides;
}

void read_ropes(const ModernBertConfig& c, ModernBertShape& s, Problems& problems) {
  const Node& both = c.rope_parameters.node;
  problems.require(both.is_null() || both.is_map(), "rope_parameters", "expected a section");
  if (both.is_map())
    for (const auto& [key, value] : both.entries())
      problems.require(key == kSeesAll || key == kSlides, "rope_parameters",
                       fmt::format("got {}, expected sections {} and {}", hone::quoted(key), kSeesAll, kSlides));
  const auto read = [&](const char* key, std::optional<double> theta, double usual) {
    const Node* found = both.is_map() ? both.find(key) : nullptr;
    return nn::read_rope({.parameters = found && !found->is_null() ? found : nullptr,
                          .scaling = nullptr,
                          .theta = theta,
                          .partial_rotary_factor = {},
                          .default_theta = usual,
                          .original_max_position_embeddings = {},
                          .head_size = s.head_size,
                          .max_positions = c.max_position_embeddings},
                         problems);
  };
  s.rope = read(kSeesAll, c.global_rope_theta, 160000);
  s.sliding_rope = read(kSlides, c.local_rope_theta, 10000);
}

ModernBertShape resolve(const ModernBertConfig& c, Problems& problems) {
  ModernBertShape s;
  problems.require(c.hidden_size % c.num_attention_heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads", c.hidden_size));
  s.heads = c.num_attention_heads, s.head_size = c.hidden_size / c.num_attention_heads;
  problems.require(s.head_size > 0 && s.head_size % 2 == 0, "hidden_size",
                   fmt::format("got {}, of which a head has {}; expected an even number", c.hidden_size, s.head_size));
  const auto hidden = static_cast<double>(c.hidden_size), inner = static_cast<double>(c.intermediate_size);
  check_parameters(static_cast<double>(c.num_hidden_layers) * hidden * (4 * hidden + 3 * inner) +
                       static_cast<double>(c.vocab_size) * hidden,
                   "hidden_size", problems);
  s.activation = nn::read_activation(c.hidden_activation, "hidden_activation", problems);
  s.head_activation = nn::read_activation(c.classifier_activation, "classifier_activation", problems);
  s.classifier_dropout = s.answers_dropout = c.classifier_dropout;
  s.slides = read_layers(c, problems);
  s.window = c.local_attention / 2 + 1;
  if (s.head_size > 0 && s.head_size % 2 == 0) read_ropes(c, s, problems);
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  read_head(c, c.tie_word_embeddings, s, problems);
  return s;
}

}  // namespace

void ModernBertConfig::validate(Problems& problems) const { resolve(*this, problems); }

ModernBertShape resolve(const ModernBertConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}

Node layer_keys(const ModernBertShape& s) {
  Node keys = Node::map();
  std::vector<Node> types;
  for (const bool slides : s.slides) types.push_back(Node::scalar(slides ? kSlides : kSeesAll, /*quoted=*/true));
  keys.at_or_add("layer_types") = Node::list(std::move(types));
  Node& ropes = keys.at_or_add("rope_parameters");
  ropes.at_or_add(kSeesAll) = nn::write_rope(s.rope), ropes.at_or_add(kSlides) = nn::write_rope(s.sliding_rope);
  return keys;
}

}  // namespace hone::models
