// Gemma's config.json: Llama's keys and its own, with the defaults of its three generations.
#include "models/gemma_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kPattern = 6, kScalar = 256;

// 0: none.
double read_cap(const config::Open& open, double absent, const char* key, Problems& problems) {
  if (is_default(open)) return absent;
  if (open.node.is_null()) return 0;
  double cap = 0;
  config::Values<double>::read(open.node, cap, {problems, key, {.low = 1e-6, .high = 1e9}});
  return cap;
}

Node write_cap(double cap) { return cap > 0 ? nn::hf_float(cap) : Node(); }

// Llama's keys as transformers understands them here: `gelu` has always meant its approximation.
LlamaConfig as_llama(const GemmaConfig& c) {
  LlamaConfig made = c;
  const bool says_another = c.model_type == "gemma" && c.hidden_act != "gelu";  // later ones have hidden_activation
  if (!says_another) made.hidden_act.reset();
  if (c.hidden_activation && c.model_type != "gemma") made.hidden_act = c.hidden_activation;
  if (c.model_type == "gemma3_text" && !c.layer_types) {
    const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(26), 10000);
    made.layer_types.emplace();
    for (std::int64_t i = 1; i <= layers; ++i)
      made.layer_types->push_back(i % c.sliding_window_pattern.value_or(kPattern) != 0 ? "sliding_attention"
                                                                                       : "full_attention");
  }
  return made;
}

void refuse_others(const GemmaConfig& c, Problems& problems) {
  const bool first = c.model_type == "gemma", third = c.model_type == "gemma3_text";
  refuse_keys(c.model_type,
              {{"mlp_bias", c.mlp_bias.value_or(false)},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()},
               {"layer_types", first && c.layer_types},
               {"query_pre_attn_scalar", first && c.query_pre_attn_scalar},
               {"attn_logit_softcapping", first && !is_default(c.attn_logit_softcapping)},
               {"final_logit_softcapping", first && !is_default(c.final_logit_softcapping)},
               {"rope_local_base_freq", !third && c.rope_local_base_freq},
               {"sliding_window_pattern", !third && c.sliding_window_pattern}},
              problems);
  problems.require(third || !c.use_bidirectional_attention.value_or(false), "use_bidirectional_attention",
                   "got true, expected false: these models generate");
}

}  // namespace

GemmaShape resolve(const GemmaConfig& c, Problems& problems) {
  GemmaShape s;
  if (!resolve_base(as_llama(c), s, problems)) return s;
  refuse_others(c, problems);
  s.embedding_scale = std::sqrt(static_cast<double>(s.hidden));
  if (c.model_type == "gemma") return s;
  const bool vault = c.model_type == "vaultgemma", second = c.model_type == "gemma2" || vault;
  s.norms_outputs = !vault;
  if (vault) s.mlp_norm = "pre_feedforward_layernorm";
  s.attention_scale = 1 / std::sqrt(static_cast<double>(c.query_pre_attn_scalar.value_or(kScalar)));
  s.attention_soft_cap = read_cap(c.attn_logit_softcapping, second ? 50 : 0, "attn_logit_softcapping", problems);
  s.logit_soft_cap = read_cap(c.final_logit_softcapping, second ? 30 : 0, "final_logit_softcapping", problems);
  if (second) return s;
  problems.require(s.attention_soft_cap == 0, "attn_logit_softcapping",
                   "got a number, expected null: in transformers it has no effect in gemma3_text models");
  read_two_ropes(c, c.rope_local_base_freq.value_or(10000), 1e6, s, problems);
  s.sees_all = c.use_bidirectional_attention.value_or(false);
  if (s.sees_all)  // half of a window's tokens are on each side
    for (std::int64_t& window : s.windows)
      if (window > 0) window = window / 2 + 1;
  return s;
}

void GemmaConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const GemmaConfig& c, const GemmaShape& s, const std::string& dtype) {
  Node node = to_hf_config(static_cast<const LlamaConfig&>(c), s, dtype);
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  if (c.model_type != "vaultgemma")
    put("use_bidirectional_attention",
        c.use_bidirectional_attention ? config::Values<bool>::write(s.sees_all) : Node());
  if (s.sees_all && s.labels.empty())
    put("architectures", Node::list({Node::scalar("Gemma3TextModel", /*quoted=*/true)}));
  const std::int64_t window = s.windows.empty() ? 0 : *std::max_element(s.windows.begin(), s.windows.end());
  if (s.sees_all && window > 0) put("sliding_window", config::Values<std::int64_t>::write(2 * (window - 1)));
  if (c.model_type == "gemma") return sort_keys(node), node;
  put("attn_logit_softcapping", write_cap(s.attention_soft_cap));
  put("final_logit_softcapping", write_cap(s.logit_soft_cap));
  put("query_pre_attn_scalar", config::Values<std::int64_t>::write(c.query_pre_attn_scalar.value_or(kScalar)));
  if (c.model_type == "gemma3_text")
    put("_sliding_window_pattern", config::Values<std::int64_t>::write(c.sliding_window_pattern.value_or(
                                       c.sliding_window_pattern_kept.value_or(kPattern))));
  sort_keys(node);
  return node;
}

}  // namespace hone::models
