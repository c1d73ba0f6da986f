// From config.json to plain numbers, with the defaults that transformers gives each of the family.
#include "models/llama_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kWindow = 4096;  // when the key is absent

// A key that may be absent, null or an integer.
std::optional<std::int64_t> integer(const config::Open& open, std::optional<std::int64_t> absent,
                                    std::optional<std::int64_t> null, const std::string& path, Problems& problems) {
  if (is_default(open)) return absent;
  if (open.node.is_null()) return null;
  std::int64_t value = 1;
  config::Values<std::int64_t>::read(open.node, value, {problems, path, {.low = 1, .high = 2147483647}});
  return value;
}

void read_sizes(const LlamaConfig& c, const Family& family, LlamaShape& s, Problems& problems) {
  s.vocab = c.vocab_size.value_or(family.vocab);
  s.hidden = c.hidden_size.value_or(family.hidden);
  s.inner = c.intermediate_size.value_or(family.inner);
  s.layers = c.num_hidden_layers.value_or(family.layers);
  s.heads = c.num_attention_heads.value_or(family.heads);
  s.max_positions = c.max_position_embeddings.value_or(family.max_positions);
  const std::int64_t absent = family.kv_heads == 0 ? s.heads : family.kv_heads;
  s.kv_heads = integer(c.num_key_value_heads, absent, s.heads, "num_key_value_heads", problems).value_or(1);
  const bool divides = s.hidden % s.heads == 0;
  const bool may_differ = s.model_type != "llama" && s.model_type != "gemma2" && s.model_type != "gemma3_text" &&
                          s.model_type != "vaultgemma";
  problems.require(divides || ((c.head_dim || family.head_size > 0) && may_differ), "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads ({})", s.hidden, s.heads));
  if (s.heads % s.kv_heads != 0 && is_default(c.num_key_value_heads))
    problems.add("num_key_value_heads",
                 fmt::format("missing; its default, {}, does not divide num_attention_heads ({})", s.kv_heads,
                             s.heads));
  else
    problems.require(s.heads % s.kv_heads == 0, "num_attention_heads",
                     fmt::format("got {}, expected a multiple of num_key_value_heads ({})", s.heads, s.kv_heads));
  s.head_size = c.head_dim.value_or(family.head_size != 0 ? family.head_size : s.hidden / s.heads);
  const bool rotates = s.model_type != "jamba";  // pairs of values
  if (rotates)
    problems.require(s.head_size % 2 == 0 && s.head_size > 0, "head_dim",
                     fmt::format("got {}, expected an even number", s.head_size));
  else
    problems.require(s.head_size > 0, "hidden_size", fmt::format("got {}, expected at least num_attention_heads ({})",
                                                                 s.hidden, s.heads));
}

// Counted in doubles, so nothing overflows.
void check_memory(const LlamaShape& s, Problems& problems) {
  const double hidden = static_cast<double>(s.hidden), inner = static_cast<double>(s.inner);
  const double attention = 2.0 * static_cast<double>(s.heads + s.kv_heads) * static_cast<double>(s.head_size) * hidden;
  check_parameters(static_cast<double>(s.layers) * (attention + 3 * hidden * inner) +
                       (s.tied ? 1.0 : 2.0) * static_cast<double>(s.vocab) * hidden,
                   "hidden_size", problems);
}

// `used`: of the layers that slide; 0: none may.
void read_layer_types(const LlamaConfig& c, std::int64_t used, const char* needed, LlamaShape& s, Problems& problems) {
  problems.require(std::ssize(*c.layer_types) == s.layers, "layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", c.layer_types->size(), s.layers));
  for (std::size_t i = 0; i < std::min(s.windows.size(), c.layer_types->size()); ++i) {
    const std::string &type = (*c.layer_types)[i], path = "layer_types." + std::to_string(i);
    if (type == "full_attention") continue;
    if (type != "sliding_attention")
      problems.add(path, fmt::format("got \"{}\", expected full_attention or sliding_attention", type));
    else if (used == 0)
      problems.add(path, fmt::format("sliding_attention needs {}", needed));
    s.windows[i] = used;
  }
}

void read_windows(const LlamaConfig& c, const Family& family, LlamaShape& s, Problems& problems) {
  s.windows.assign(std::min<std::int64_t>(s.layers, 10000), 0);
  if (!may_slide(family.windows)) return;
  const bool none = family.windows == Windows::given || family.windows == Windows::listed;
  const std::int64_t absent = none ? 0 : kWindow;
  const std::int64_t window = integer(c.sliding_window, absent, 0, "sliding_window", problems).value_or(0);
  if (family.windows == Windows::given) return s.windows.assign(s.windows.size(), window);
  if (family.windows == Windows::pattern) {
    s.sliding_window = window > 0 ? window : kWindow;
    if (c.layer_types) return read_layer_types(c, window, "a sliding_window", s, problems);
    for (std::int64_t i = 0; i < std::ssize(s.windows); ++i) s.windows[i] = (i + 1) % family.pattern != 0 ? window : 0;
    return;
  }
  if (family.windows == Windows::behind) {
    s.sliding_window = window;
    if (c.layer_types) return read_layer_types(c, window, "a sliding_window", s, problems);
    for (std::int64_t i = c.max_window_layers.value_or(family.pattern); i < std::ssize(s.windows); ++i)
      s.windows[i] = window;
    return;
  }
  if (family.windows == Windows::mistral || family.windows == Windows::ministral) {
    if (family.windows == Windows::ministral) s.sliding_window = window > 0 ? window : kWindow;
    if (c.layer_types) return read_layer_types(c, window, "a sliding_window", s, problems);
    return s.windows.assign(s.windows.size(), window);
  }
  const std::int64_t used = c.use_sliding_window.value_or(false) ? window : 0;
  if (family.windows == Windows::all_if_used) return s.windows.assign(s.windows.size(), used);
  if (c.layer_types) return read_layer_types(c, used, "use_sliding_window true and a sliding_window", s, problems);
  if (family.windows == Windows::listed) return;
  for (std::int64_t i = c.max_window_layers.value_or(28); i < std::ssize(s.windows); ++i) s.windows[i] = used;
}

void read_rest(const LlamaConfig& c, const Family& family, LlamaShape& s, Problems& problems) {
  s.tied = c.tie_word_embeddings.value_or(family.tied);
  s.eps = c.rms_norm_eps.value_or(family.eps);
  s.factor = family.factor;
  s.attention_scale = 1.0 / std::sqrt(static_cast<double>(s.head_size));
  s.activation_name = c.hidden_act.value_or(family.activation);
  s.std = c.initializer_range.value_or(family.std);
  s.attention_dropout = c.attention_dropout.value_or(0);
  const bool bias = family.reads_attention_bias && c.attention_bias.value_or(false);
  s.qkv_bias = family.always_qkv_bias || bias;
  s.output_bias = bias;
  s.mlp_bias = family.reads_mlp_bias && c.mlp_bias.value_or(false);
  s.qk_norm = family.qk_norm;
  // Others have the key in published files, and in transformers it means nothing there.
  const std::int64_t slices = s.model_type == "llama" ? c.pretraining_tp.value_or(1) : 1;
  problems.require(slices == 1, "pretraining_tp", fmt::format("got {}, expected 1", slices));
  problems.require(c.is_causal, "is_causal", "got false, expected true: these models generate");
  const auto ids = [&](const config::Open& open, const char* key) {
    return is_default(open) ? std::vector<std::int32_t>() : nn::read_token_ids(open.node, key, s.vocab, problems);
  };
  ids(c.bos_token_id, "bos_token_id"), ids(c.eos_token_id, "eos_token_id");
  const std::vector<std::int32_t> pad = ids(c.pad_token_id, "pad_token_id");
  const bool is_absent = is_default(c.pad_token_id);
  s.no_gradient_id = is_absent && family.pad < s.vocab ? family.pad : pad.empty() ? -1 : pad[0];
}

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

}  // namespace

bool has_rope_scaling(const LlamaConfig& c) {
  const Node& scaling = c.rope_scaling.node;
  return !scaling.is_null() && !(scaling.is_map() && scaling.entries().empty());
}

namespace {

nn::RopeSource rope_source(const LlamaConfig& c, const Family& family, const LlamaShape& s) {
  return {.parameters = c.rope_parameters.node.is_null() ? nullptr : &c.rope_parameters.node,
          .scaling = has_rope_scaling(c) ? &c.rope_scaling.node : nullptr,
          .theta = c.rope_theta,
          .partial_rotary_factor = c.partial_rotary_factor,
          .default_theta = family.theta,
          .may_be_partial = family.partial_rope,
          .original_max_position_embeddings = c.original_max_position_embeddings,
          .head_size = s.head_size,
          .max_positions = s.max_positions};
}

}  // namespace

void read_two_ropes(const LlamaConfig& c, std::optional<double> sliding_theta, double theta, LlamaShape& s,
                    Problems& problems) {
  const Node& both = c.rope_parameters.node;
  nn::RopeSource full = rope_source(c, *family_of(c.model_type), s), sliding = full;
  if (s.global_head_size > 0) full.head_size = s.global_head_size;
  full.default_theta = theta, sliding.default_theta = sliding_theta.value_or(theta);
  full.parameters = sliding.parameters = nullptr, sliding.scaling = nullptr;
  sliding.theta = sliding_theta;
  if (both.is_map()) {
    std::vector<std::string> others;
    for (const auto& [key, value] : both.entries())
      if (key != kFull && key != kSliding) others.push_back(key);
    if (!others.empty())
      problems.add("rope_parameters",
                   fmt::format("got {}, expected sections {} and {}", join(others, ", "), kFull, kSliding), "",
                   both.mark());
    if (const Node* found = both.find(kFull); found && !found->is_null()) full.parameters = found;
    if (const Node* found = both.find(kSliding); found && !found->is_null()) sliding.parameters = found;
  } else if (!both.is_null()) {
    problems.add("rope_parameters", "expected a section", "", both.mark());
  }
  s.rope = nn::read_rope(full, problems);
  s.sliding_rope = nn::read_rope(sliding, problems);
}

Node write_two_ropes(const LlamaShape& s) {
  Node node = Node::map();
  node.at_or_add(kFull) = nn::write_rope(s.rope);
  node.at_or_add(kSliding) = nn::write_rope(s.sliding_rope.value_or(s.rope));
  return node;
}

void refuse_keys(const std::string& family, const std::vector<std::pair<const char*, bool>>& given,
                 Problems& problems) {
  for (const auto& [key, there] : given) problems.require(!there, key, family + " has no such key");
}

void refuse_rare_keys(const LlamaConfig& c, bool lists_layers, Problems& problems) {
  refuse_keys(c.model_type,
              {{"layer_types", !lists_layers && c.layer_types},
               {"mlp_bias", c.mlp_bias.value_or(false) && !family_of(c.model_type)->reads_mlp_bias},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()}},
              problems);
}

bool is_default(const config::Open& open) {
  return open.node.kind() == Node::Kind::scalar && open.node.text() == "default";
}

namespace {
std::string no_classifier(const LlamaShape& s, bool of_tokens) {
  return fmt::format("transformers has no classifier{} of type {}, so nobody could read its folder",
                     of_tokens ? " of tokens" : "", s.model_type);
}

// Of which transformers' AutoModelForTokenClassification makes models.
constexpr std::string_view kWithLabelsOfTokens[] = {
    "apertus", "arcee", "deepseek_v3", "exaone4", "gemma", "gemma2", "glm", "glm4", "gpt_oss", "helium",
    "llama", "ministral", "ministral3", "mistral", "mistral4", "mixtral", "nemotron", "phi", "phi3", "qwen2",
    "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "seed_oss", "smollm3", "stablelm", "starcoder2"};

bool has_classifier(const Family& family, bool of_tokens) {
  if (!of_tokens) return family.classifier != nullptr;
  return std::find(std::begin(kWithLabelsOfTokens), std::end(kWithLabelsOfTokens), family.model_type) !=
         std::end(kWithLabelsOfTokens);
}
}  // namespace

LlamaShape resolve(const LlamaConfig& c, Problems& problems) {
  LlamaShape s;
  const Family* family = family_of(c.model_type);
  if (!family) {
    problems.add("model_type", fmt::format("got \"{}\", expected llama or one of its relatives", c.model_type));
    return s;
  }
  s.model_type = family->model_type;
  s.architecture = family->architecture;
  read_sizes(c, *family, s, problems);
  read_rest(c, *family, s, problems);
  check_memory(s, problems);
  read_windows(c, *family, s, problems);
  s.activation = nn::read_activation(s.activation_name, family->activation_key, problems);
  if (!family->two_ropes) s.rope = nn::read_rope(rope_source(c, *family, s), problems);
  const HeadLabels labels = read_labels(c, problems);
  s.classifier_dropout = c.classifier_dropout.value_or(s.classifier_dropout);
  if (labels.empty() || has_classifier(*family, labels.of_tokens))
    give_head({.labels = labels.names, .problem_type = labels.problem_type, .of_tokens = labels.of_tokens}, s);
  else
    problems.add("architectures", no_classifier(s, labels.of_tokens));
  return s;
}

bool resolve_base(const LlamaConfig& c, LlamaShape& s, Problems& problems) {
  const std::size_t before = problems.size();
  s = resolve(c, problems);
  return problems.size() == before;
}

void give_head(const HeadRequest& head, LlamaShape& s) {
  if (head.labels.empty()) return;
  const Family* family = family_of(s.model_type);
  if (family && !has_classifier(*family, head.of_tokens))
    throw Error(ErrorKind::config, "the model: " + no_classifier(s, head.of_tokens))
        .hint(fmt::format("train a model of another type: llama, mistral, qwen3, {}, …",
                          head.of_tokens ? "gemma2" : "gemma3_text"));
  ask_for(head, s.labels);
  const std::string usual = s.architecture.substr(0, s.architecture.find("For")) + s.labels.class_end();
  s.architecture = family && !head.of_tokens && *family->classifier ? family->classifier : usual;
}

void warn_ignored(const LlamaConfig& c) {
  const Family& family = *family_of(c.model_type);
  const auto ignored = [&](const char* key, bool matters) {
    if (matters)
      log::warning("config.json: {} has no effect in {} models, in transformers as here", key, family.model_type);
  };
  ignored("attention_bias",
          c.attention_bias.value_or(false) && !family.reads_attention_bias && !family.always_qkv_bias);
  ignored("mlp_bias", c.mlp_bias.value_or(false) && !family.reads_mlp_bias);
  const bool reads_types = family.windows == Windows::by_layer || family.windows == Windows::mistral ||
                           family.windows == Windows::ministral || family.windows == Windows::pattern ||
                           family.windows == Windows::listed || family.windows == Windows::remembered ||
                           family.windows == Windows::behind;
  ignored("layer_types", c.layer_types && !reads_types);
  const bool has_window = !is_default(c.sliding_window) && !c.sliding_window.node.is_null();
  ignored("sliding_window", !may_slide(family.windows) && has_window);
  const bool reads_use = family.windows == Windows::by_layer || family.windows == Windows::all_if_used ||
                         family.windows == Windows::listed;
  ignored("use_sliding_window", !reads_use && c.use_sliding_window.value_or(false));
}

void LlamaConfig::validate(Problems& problems) const { resolve(*this, problems); }

namespace {

Node number(double value) { return nn::hf_float(value); }
Node number(std::int64_t value) { return config::Values<std::int64_t>::write(value); }
Node text(const std::string& value) { return Node::scalar(value, /*quoted=*/true); }
Node flag(bool value) { return config::Values<bool>::write(value); }

void write_windows(Node& node, const LlamaConfig& c, const LlamaShape& s) {
  const Family& family = *family_of(s.model_type);
  const auto widest = std::max_element(s.windows.begin(), s.windows.end());
  std::int64_t window = widest == s.windows.end() ? 0 : *widest;
  // transformers looks it up where config.json lists layers, whether one of them slides or not.
  if (window == 0) window = s.sliding_window;
  if (may_slide(family.windows)) node.at_or_add("sliding_window") = window > 0 ? number(window) : Node();
  if (family.windows == Windows::all_if_used || family.windows == Windows::listed)
    node.at_or_add("use_sliding_window") = flag(window > 0);
  // Mistral's layers that are all alike need no list, and transformers cannot do with one where none slides.
  const bool alike = std::all_of(s.windows.begin(), s.windows.end(), [&](std::int64_t w) { return w == window; });
  const bool lists = family.windows == Windows::by_layer || family.windows == Windows::pattern ||
                     family.windows == Windows::listed || family.windows == Windows::ministral ||
                     family.windows == Windows::behind;
  if (lists || (family.windows == Windows::mistral && !alike)) {
    std::vector<Node> types;
    for (const std::int64_t w : s.windows) types.push_back(text(w > 0 ? "sliding_attention" : "full_attention"));
    node.at_or_add("layer_types") = Node::list(std::move(types));
  }
  if (family.windows == Windows::behind)
    node.at_or_add("max_window_layers") = number(c.max_window_layers.value_or(family.pattern));
  if (family.windows != Windows::by_layer) return;
  node.at_or_add("max_window_layers") = number(c.max_window_layers.value_or(28));
  node.at_or_add("use_sliding_window") = flag(window > 0);
}

}  // namespace

Node to_hf_config(const LlamaConfig& c, const LlamaShape& s, const std::string& dtype) {
  const Family& family = *family_of(s.model_type);
  Node node = Node::map();
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("architectures", Node::list({text(s.architecture)}));
  if (family.reads_attention_bias) put("attention_bias", flag(s.output_bias));
  put("attention_dropout", number(s.attention_dropout));
  for (const auto& [key, value] : {std::pair{"bos_token_id", &c.bos_token_id},
                                   {"eos_token_id", &c.eos_token_id},
                                   {"pad_token_id", &c.pad_token_id}})
    if (!is_default(*value)) put(key, value->node);
  if (c.classifier_dropout) put("classifier_dropout", number(*c.classifier_dropout));
  if (!dtype.empty()) put("dtype", text(dtype));
  if (c.head_dim || family.writes_computed_head_size) put("head_dim", number(s.head_size));
  put(family.activation_key, text(s.activation_name));
  put("hidden_size", number(s.hidden));
  write_labels(s.labels, c, node);
  put("initializer_range", number(s.std));
  put("intermediate_size", number(s.inner));
  put("max_position_embeddings", number(s.max_positions));
  if (family.reads_mlp_bias) put("mlp_bias", flag(s.mlp_bias));
  put("model_type", text(s.model_type));
  put("num_attention_heads", number(s.heads));
  put("num_hidden_layers", number(s.layers));
  put("num_key_value_heads", number(s.kv_heads));
  if (s.model_type == "llama") put("pretraining_tp", number(std::int64_t{1}));
  put(family.eps_key, number(s.eps));
  put("rope_parameters", s.sliding_rope ? write_two_ropes(s) : nn::write_rope(s.rope));
  write_windows(node, c, s);
  put("tie_word_embeddings", flag(s.tied));
  put("use_cache", flag(true));
  put("vocab_size", number(s.vocab));
  return node;
}

}  // namespace hone::models
