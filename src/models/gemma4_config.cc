// Gemma 4's config.json: Llama's keys and its own, with transformers' defaults.
#include "models/gemma4_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "models/check_parameters.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kGlobalHeadSize = 512, kPerLayer = 256, kPerLayerVocab = 262144, kGemma4Pattern = 6;
constexpr const char *kAll = "full_attention", *kNear = "sliding_attention";

bool is_unified(const Gemma4Config& c) { return c.model_type == "gemma4_unified_text"; }

Node integral(std::int64_t value) { return config::Values<std::int64_t>::write(value); }
Node truth(bool value) { return config::Values<bool>::write(value); }
Node word(const char* text) { return Node::scalar(text, /*quoted=*/true); }

std::vector<std::string> layer_types(const Gemma4Config& c) {
  std::vector<std::string> types;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(30), 10000);
  for (std::int64_t i = 1; i <= layers; ++i) types.push_back(i % kGemma4Pattern != 0 ? kNear : kAll);
  return types;
}

// Sections that are absent.
void complete_ropes(Node& both) {
  if (both.is_null()) both = Node::map();
  if (!both.is_map()) return;
  if (const Node* said = both.find(kAll); !said || said->is_null()) {
    Node& full = both.at_or_add(kAll) = Node::map();
    full.at_or_add("rope_type") = word("proportional"), full.at_or_add("rope_theta") = Node::scalar("1000000.0");
    full.at_or_add("partial_rotary_factor") = Node::scalar("0.25");
  }
  if (const Node* said = both.find(kNear); !said || said->is_null()) {
    Node& sliding = both.at_or_add(kNear) = Node::map();
    sliding.at_or_add("rope_type") = word("default"), sliding.at_or_add("rope_theta") = Node::scalar("10000.0");
  }
}

// Llama's keys as transformers understands them here.
LlamaConfig as_llama(const Gemma4Config& c) {
  LlamaConfig made = c;
  made.hidden_act = c.hidden_activation;
  if (is_default(c.sliding_window)) made.sliding_window.node = Node::scalar(is_unified(c) ? "1024" : "512");
  if (!c.layer_types) made.layer_types = layer_types(c);
  if (!made.layer_types->empty() && made.layer_types->back() == kNear) made.layer_types->back() = kAll;
  complete_ropes(made.rope_parameters.node);
  return made;
}

void refuse_others(const Gemma4Config& c, Problems& problems) {
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  refuse_keys(c.model_type,
              {{"rope_scaling", has_rope_scaling(c)},
               {"rope_theta", c.rope_theta.has_value()},
               {"partial_rotary_factor", c.partial_rotary_factor.has_value()},
               {"hidden_size_per_layer_input", is_unified(c) && c.hidden_size_per_layer_input.value_or(0) > 0},
               {"enable_moe_block", is_unified(c) && c.enable_moe_block.value_or(false)}},
              problems);
  const Node& both_ways = c.use_bidirectional_attention.node;
  const bool known = is_default(c.use_bidirectional_attention) || both_ways.is_null() ||
                     (both_ways.kind() == Node::Kind::scalar && both_ways.text() == "vision");
  problems.require(known, "use_bidirectional_attention",
                   fmt::format("got {}, expected null or vision: these models generate",
                               both_ways.kind() == Node::Kind::scalar ? both_ways.text() : "no word"));
}

// What per_layer_config says of one layer, or the model of all.
struct Heads {
  std::int64_t size = 0, keys = 0;
  bool operator==(const Heads&) const = default;
};

std::map<std::int64_t, Heads> read_layers(const Node& all, const Heads& usual, std::int64_t layers,
                                          Problems& problems) {
  std::map<std::int64_t, Heads> made;
  if (!all.is_map()) return problems.add("per_layer_config", "expected a section for each layer"), made;
  for (const auto& [key, said] : all.entries()) {
    const std::string path = "per_layer_config." + key;
    const auto layer = parse_int(key);
    if (!layer || *layer < 0 || *layer >= layers || !said.is_map()) {
      problems.add(path, fmt::format("expected the number of a layer, 0 to {}, and a section", layers - 1));
      continue;
    }
    Heads& heads = made[*layer] = usual;
    for (const auto& [what, value] : said.entries()) {
      std::int64_t* const to = what == "head_dim" ? &heads.size : what == "num_key_value_heads" ? &heads.keys : nullptr;
      if (to)
        config::Values<std::int64_t>::read(value, *to, {problems, path + "." + what, {.low = 1, .high = 65536}});
      else
        problems.add(path + "." + what, "got a key that differs by layer, expected head_dim or num_key_value_heads");
    }
  }
  return made;
}

// Layers of a kind are alike: what they rotate is.
void read_heads(const Gemma4Config& c, Gemma4Shape& s, Problems& problems) {
  const Heads usual{s.head_size, s.kv_heads};
  Heads all = usual, near = usual;
  if (c.per_layer_config.node.is_null()) {
    all.size = c.global_head_dim.value_or(kGlobalHeadSize);
    if (s.values_of_keys) all.keys = c.num_global_key_value_heads.value_or(s.kv_heads);
  } else {
    const auto said = read_layers(c.per_layer_config.node, usual, std::ssize(s.windows), problems);
    std::map<bool, std::vector<Heads>> kinds;  // true: layers that see all
    for (std::int64_t i = 0; i < std::ssize(s.windows); ++i)
      kinds[s.is_global(i)].push_back(said.contains(i) ? said.at(i) : usual);
    for (auto& [sees_all, heads] : kinds) {
      (sees_all ? all : near) = heads[0];
      const bool alike = std::all_of(heads.begin(), heads.end(), [&](const Heads& one) { return one == heads[0]; });
      problems.require(
          alike, "per_layer_config",
          fmt::format("differs in layers of type {}, expected the same of all of them", sees_all ? kAll : kNear));
    }
  }
  for (const Heads& heads : {all, near}) {
    problems.require(heads.size % 2 == 0, "head_dim", fmt::format("got {}, expected an even number", heads.size));
    problems.require(
        s.heads % heads.keys == 0, "num_attention_heads",
        fmt::format("got {}, expected a multiple of a layer's key and value heads ({})", s.heads, heads.keys));
  }
  s.head_size = near.size, s.kv_heads = near.keys;
  s.global_head_size = all.size, s.global_kv_heads = all.keys;
}

void read_experts(const Gemma4Config& c, Gemma4Shape& s, Problems& problems) {
  if (is_unified(c) || !c.enable_moe_block.value_or(false)) return;
  const auto need = [&](const std::optional<std::int64_t>& value, const char* key) {
    problems.require(value.has_value(), key, "missing; enable_moe_block needs it");
    return value.value_or(1);
  };
  s.experts = need(c.num_experts, "num_experts"), s.experts_per_token = need(c.top_k_experts, "top_k_experts");
  s.expert_inner = need(c.moe_intermediate_size, "moe_intermediate_size");
  problems.require(s.experts_per_token <= s.experts, "top_k_experts",
                   fmt::format("got {}, expected at most num_experts ({})", s.experts_per_token, s.experts));
  check_parameters(3.0 * static_cast<double>(s.layers) * static_cast<double>(s.experts) *
                       static_cast<double>(s.hidden) * static_cast<double>(s.expert_inner),
                   "num_experts", problems);
}

void read_inputs(const Gemma4Config& c, Gemma4Shape& s, Problems& problems) {
  s.per_layer = is_unified(c) ? 0 : c.hidden_size_per_layer_input.value_or(kPerLayer);
  if (s.per_layer == 0) return;
  s.per_layer_vocab = c.vocab_size_per_layer_input.value_or(kPerLayerVocab);
  problems.require(s.per_layer_vocab >= s.vocab, "vocab_size_per_layer_input",
                   fmt::format("got {}, expected vocab_size ({}) or more", s.per_layer_vocab, s.vocab));
  check_parameters(
      static_cast<double>(s.per_layer_vocab) * static_cast<double>(s.layers) * static_cast<double>(s.per_layer),
      "vocab_size_per_layer_input", problems);
}

// What differs in layers that see all tokens.
Node write_layers(const Gemma4Shape& s) {
  Node all = Node::map();
  for (std::int64_t i = 0; i < s.layers; ++i) {
    Node one = Node::map();
    if (s.head_size_of(i) != s.head_size) one.at_or_add("head_dim") = integral(s.head_size_of(i));
    if (s.kv_heads_of(i) != s.kv_heads) one.at_or_add("num_key_value_heads") = integral(s.kv_heads_of(i));
    if (one.is_map() && !one.entries().empty()) all.at_or_add(std::to_string(i)) = one;
  }
  return all;
}

Node maybe(const std::optional<std::int64_t>& value) { return value ? integral(*value) : Node(); }

}  // namespace

void read_shared_keys(std::int64_t shared, Gemma4Shape& s, Problems& problems) {
  const std::int64_t layers = std::ssize(s.windows);
  for (std::int64_t i = 0; i < layers; ++i) s.keys_of.push_back(i);
  if (shared >= layers && shared > 0)
    return problems.add("num_kv_shared_layers",
                        fmt::format("got {}, expected less than num_hidden_layers ({})", shared, layers));
  for (std::int64_t i = layers - shared; i < layers; ++i) {
    std::int64_t from = layers - shared - 1;
    while (from >= 0 && s.is_global(from) != s.is_global(i)) --from;
    if (from < 0)
      return problems.add("num_kv_shared_layers",
                          fmt::format("got {}, but layer {} has none of its type before it", shared, i));
    s.keys_of[i] = from;
  }
}

bool Gemma4Shape::is_shared(std::int64_t layer) const {
  return !shares(layer) && std::count(keys_of.begin(), keys_of.end(), layer) > 1;
}

Gemma4Shape resolve(const Gemma4Config& c, Problems& problems) {
  Gemma4Shape s;
  if (!resolve_base(as_llama(c), s, problems)) return s;
  refuse_others(c, problems);
  s.attention_scale = 1;
  s.embedding_scale = std::sqrt(static_cast<double>(s.hidden));
  s.logit_soft_cap = c.final_logit_softcapping.value_or(0);
  s.values_of_keys = c.attention_k_eq_v.value_or(false);
  s.double_wide = c.use_double_wide_mlp.value_or(false);
  read_heads(c, s, problems);
  read_shared_keys(c.num_kv_shared_layers.value_or(0), s, problems);
  read_inputs(c, s, problems);
  read_experts(c, s, problems);
  read_two_ropes(as_llama(c), 10000, 1e6, s, problems);
  return s;
}

void Gemma4Config::validate(Problems& problems) const { resolve(*this, problems); }

void warn_changed(const Gemma4Config& c) {
  if (c.layer_types && !c.layer_types->empty() && c.layer_types->back() == kNear)
    log::warning("config.json: layer_types: the last layer is taken for one of type {}, in transformers as here", kAll);
}

Node to_hf_config(const Gemma4Config& c, const Gemma4Shape& s, const std::string& dtype) {
  Node node = to_hf_config(as_llama(c), s, dtype);
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("attention_k_eq_v", truth(s.values_of_keys));
  put("final_logit_softcapping", s.logit_soft_cap > 0 ? nn::hf_float(s.logit_soft_cap) : Node());
  put("num_kv_shared_layers", integral(c.num_kv_shared_layers.value_or(0)));
  put("per_layer_config", write_layers(s));
  put("use_double_wide_mlp", truth(s.double_wide));
  const Node& both_ways = c.use_bidirectional_attention.node;
  if (!is_default(c.use_bidirectional_attention))
    put("use_bidirectional_attention", both_ways);
  else
    put("use_bidirectional_attention", is_unified(c) ? word("vision") : Node());
  if (!is_unified(c)) {
    put("enable_moe_block", truth(s.experts > 0));
    put("hidden_size_per_layer_input", integral(s.per_layer));
    put("moe_intermediate_size", maybe(c.moe_intermediate_size));
    put("num_experts", maybe(c.num_experts)), put("top_k_experts", maybe(c.top_k_experts));
    put("vocab_size_per_layer_input", integral(c.vocab_size_per_layer_input.value_or(kPerLayerVocab)));
  }
  sort_keys(node);
  return node;
}

}  // namespace hone::models
