// What config.json of a LLaVA may say.
#include "models/llava_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "models/hf_values.h"
#include "models/picture_keys.h"
#include "models/quick_gelu.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kImageToken = 32000;

ClipConfig published_tower() {
  ClipConfig made;
  made.hidden_size = 1024, made.intermediate_size = 4096, made.num_hidden_layers = 24, made.num_attention_heads = 16;
  made.image_size = 336, made.patch_size = 14, made.projection_dim = 768, made.vocab_size = 32000;
  return made;
}

constexpr std::int64_t kUsual[][2] = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};

// Of LLaVA-NeXT: lists of a height and a width, of whole tiles.
void check_pinpoints(const LlavaConfig& c, const LlavaShape& s, Problems& problems) {
  const Node& given = c.image_grid_pinpoints.node;
  const bool is_next = c.model_type == "llava_next";
  problems.require(is_next || given.is_null(), "image_grid_pinpoints", c.model_type + " has no such key");
  problems.require(!is_next || !s.all_vectors, "vision_feature_select_strategy",
                   "got full, expected default: tiles are put together by their patches");
  if (!is_next || given.is_null()) return;
  std::vector<std::vector<std::int64_t>> all;
  const std::size_t before = problems.size();
  problems.require(given.kind() == Node::Kind::list, "image_grid_pinpoints", "expected a list of heights and widths");
  for (const Node& one : given.items()) {
    std::vector<std::int64_t> sides;
    config::Values<std::vector<std::int64_t>>::read(one, sides, {problems, "image_grid_pinpoints", at_least(1)});
    if (problems.size() != before) return;
    const bool fits = sides.size() == 2 && sides[0] % s.tower.image_size == 0 && sides[1] % s.tower.image_size == 0;
    problems.require(fits, "image_grid_pinpoints",
                     fmt::format("expected heights and widths that are multiples of image_size ({})",
                                 s.tower.image_size));
  }
}

Node pinpoints_of(const LlavaConfig& c) {
  if (!c.image_grid_pinpoints.node.is_null()) return c.image_grid_pinpoints.node;
  std::vector<Node> all;
  for (const auto& [height, width] : kUsual)
    all.push_back(config::Values<std::vector<std::int64_t>>::write({height, width}));
  return Node::list(std::move(all));
}

}  // namespace

LlavaShape resolve(const LlavaConfig& c, Problems& problems) {
  LlavaShape s;
  const std::size_t before = problems.size();
  s.tower = c.vision_config.node.is_null() ? published_tower() : ClipConfig();
  read_section(c.vision_config, "vision_config", s.tower, problems);
  read_section(c.text_config, "text_config", s.text_config, problems);
  if (problems.size() != before) return s;
  if (c.tie_word_embeddings.value_or(false)) s.text_config.tie_word_embeddings = true;
  check_type_of_texts(s.text_config.model_type, {"llama", "mistral", "qwen2", "qwen3"}, problems);
  {
    const Problems::Scope scope(problems, "text_config.");
    s.texts = resolve(s.text_config, problems);
  }
  s.texts.body = "model.language_model";
  Activated(c.projector_hidden_act, "projector_hidden_act", problems);
  s.all_vectors = c.vision_feature_select_strategy == FeatureSelect::full;
  const std::int64_t count = s.tower.num_hidden_layers;
  problems.require(!c.vision_feature_layer.empty(), "vision_feature_layer", "expected a layer, or a list of some");
  for (const std::int64_t layer : c.vision_feature_layer) {
    const bool there = layer >= -count - 1 && layer <= count;
    problems.require(there, "vision_feature_layer", fmt::format("got {}, expected {} to {}", layer, -count - 1, count));
    s.layers.push_back(!there ? 0 : layer < 0 ? layer + count + 1 : layer);
  }
  const std::int64_t token = c.image_token_index.value_or(c.image_token_id.value_or(kImageToken));
  s.input = {.token = picture_token(token, "image_token_index", s.texts.vocab, problems),
             .patch_size = s.tower.patch_size,
             .more = s.all_vectors ? 1 : 0,
             .side = s.tower.side(),
             .joined = c.model_type == "llava_next"};
  check_pinpoints(c, s, problems);
  return s;
}

void LlavaConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const LlavaConfig& c, const LlavaShape& s, const std::string& dtype) {
  Node node = Node::map();
  node.at_or_add("architectures") = Node::list(
      {hf_text(s.input.joined ? "LlavaNextForConditionalGeneration" : "LlavaForConditionalGeneration")});
  if (!dtype.empty()) node.at_or_add("dtype") = hf_text(dtype);
  write_ids(c, node);
  if (s.input.joined) node.at_or_add("image_grid_pinpoints") = pinpoints_of(c);
  node.at_or_add("image_seq_length") =
      hf_number(c.image_seq_length.value_or(s.input.side * s.input.side + s.input.more));
  node.at_or_add("image_token_index") = hf_number(s.input.token);
  node.at_or_add("model_type") = hf_text(c.model_type);
  node.at_or_add("multimodal_projector_bias") = hf_flag(c.multimodal_projector_bias);
  node.at_or_add("projector_hidden_act") = hf_text(c.projector_hidden_act);
  node.at_or_add("text_config") = without(to_hf_config(s.text_config, s.texts, dtype), {"architectures"});
  node.at_or_add("tie_word_embeddings") = hf_flag(s.texts.tied);
  node.at_or_add("vision_config") = to_hf_config(s.tower, dtype);
  const bool one = c.vision_feature_layer.size() == 1;
  node.at_or_add("vision_feature_layer") =
      one ? hf_number(c.vision_feature_layer[0])
          : config::Values<std::vector<std::int64_t>>::write(c.vision_feature_layer);
  node.at_or_add("vision_feature_select_strategy") = hf_text(s.all_vectors ? "full" : "default");
  return node;
}

}  // namespace hone::models
