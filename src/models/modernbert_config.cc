// From config.json of ModernBERT to what it means, and back.
#include "models/modernbert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/sort_keys.h"
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
  s.head_size = c.hidden_size / c.num_attention_heads;
  problems.require(s.head_size > 0 && s.head_size % 2 == 0, "hidden_size",
                   fmt::format("got {}, of which a head has {}; expected an even number", c.hidden_size, s.head_size));
  const auto hidden = static_cast<double>(c.hidden_size), inner = static_cast<double>(c.intermediate_size);
  check_parameters(static_cast<double>(c.num_hidden_layers) * hidden * (4 * hidden + 3 * inner) +
                       static_cast<double>(c.vocab_size) * hidden,
                   "hidden_size", problems);
  s.activation = nn::read_activation(c.hidden_activation, "hidden_activation", problems);
  s.head_activation = nn::read_activation(c.classifier_activation, "classifier_activation", problems);
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
  ModernBertShape s = resolve(c, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  problems.raise("the model's configuration");
  return s;
}

Node to_hf_config(const ModernBertConfig& c, const ModernBertShape& s, const std::string& dtype) {
  Node node = config::write(c);
  std::erase_if(node.entries(), [](const Node::Entry& entry) {
    constexpr const char* kOld[] = {"global_attn_every_n_layers", "global_rope_theta",       "local_rope_theta",
                                    "layer_norm_eps",             "position_embedding_type", "reference_compile",
                                    "repad_logits_with_grad",     "gradient_checkpointing",  "num_labels",
                                    "id2label",                   "label2id",                "problem_type"};
    return std::find(std::begin(kOld), std::end(kOld), entry.first) != std::end(kOld);
  });
  const auto text = [](const std::string& value) { return Node::scalar(value, /*quoted=*/true); };
  node.at_or_add("architectures") = Node::list({text(std::string("ModernBert") + s.class_end())});
  write_labels(s.labels, c, node);
  for (const auto& [key, id] : {std::pair{"bos_token_id", &c.bos_token_id},
                                {"eos_token_id", &c.eos_token_id},
                                {"pad_token_id", &c.pad_token_id},
                                {"cls_token_id", &c.cls_token_id},
                                {"sep_token_id", &c.sep_token_id}})
    node.at_or_add(key) = id->node;  // null, too
  std::vector<Node> types;
  for (const bool slides : s.slides) types.push_back(text(slides ? kSlides : kSeesAll));
  node.at_or_add("layer_types") = Node::list(std::move(types));
  Node ropes = Node::map();
  ropes.at_or_add(kSeesAll) = nn::write_rope(s.rope), ropes.at_or_add(kSlides) = nn::write_rope(s.sliding_rope);
  node.at_or_add("rope_parameters") = std::move(ropes);
  for (const auto& [key, value] : {std::pair{"attention_dropout", c.attention_dropout},
                                   {"embedding_dropout", c.embedding_dropout},
                                   {"mlp_dropout", c.mlp_dropout},
                                   {"classifier_dropout", c.classifier_dropout},
                                   {"norm_eps", c.norm_eps},
                                   {"initializer_range", c.initializer_range},
                                   {"initializer_cutoff_factor", c.initializer_cutoff_factor}})
    node.at_or_add(key) = nn::hf_float(value);
  if (!dtype.empty()) node.at_or_add("dtype") = text(dtype);
  sort_keys(node);
  return node;
}

}  // namespace hone::models
