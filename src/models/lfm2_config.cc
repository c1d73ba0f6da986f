// LFM2's config.json: Llama's keys, some of them by other names, and those of layers with convolutions.
#include "models/lfm2_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "models/check_parameters.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kFullAttention = "full_attention", *kConvolution = "conv";
constexpr std::int64_t kBegin = 1, kEnd = 2;  // of texts, where config.json does not say

template <class T>
Node node_of(const T& value) {
  return config::Values<T>::write(value);
}

// Llama's keys, with what transformers takes for those that are absent or have another name.
LlamaConfig as_llama(const Lfm2Keys& c) {
  LlamaConfig made = c;
  made.layer_types.reset();
  made.rms_norm_eps = c.norm_eps;
  if (c.tie_embedding) made.tie_word_embeddings = c.tie_embedding;
  const std::int64_t vocab = c.vocab_size.value_or(family_of(c.model_type)->vocab);
  if (is_default(c.bos_token_id) && kBegin < vocab) made.bos_token_id.node = node_of(kBegin);
  if (is_default(c.eos_token_id) && kEnd < vocab) made.eos_token_id.node = node_of(kEnd);
  return made;
}
LlamaConfig as_llama(const Lfm2Config& c) {
  LlamaConfig made = as_llama(static_cast<const Lfm2Keys&>(c));
  if (c.block_ff_dim) made.intermediate_size = c.block_ff_dim;
  return made;
}

void read_types(const std::vector<std::string>& types, Lfm2Shape& s, Problems& problems) {
  problems.require(std::ssize(types) == s.layers, "layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", types.size(), s.layers));
  for (std::size_t i = 0; i < std::min(s.convolves.size(), types.size()); ++i) {
    problems.require(types[i] == kFullAttention || types[i] == kConvolution, fmt::format("layer_types.{}", i),
                     fmt::format("got \"{}\", expected {} or {}", types[i], kFullAttention, kConvolution));
    s.convolves[i] = types[i] == kConvolution;
  }
}

void read_indices(const std::vector<std::int64_t>& attending, Lfm2Shape& s, Problems& problems) {
  s.convolves.assign(s.convolves.size(), true);
  for (std::size_t i = 0; i < attending.size(); ++i) {
    const bool there = attending[i] < std::ssize(s.convolves);
    problems.require(there, fmt::format("full_attn_idxs.{}", i),
                     fmt::format("got {}, expected a layer from 0 to {}", attending[i], s.layers - 1));
    if (there) s.convolves[static_cast<std::size_t>(attending[i])] = false;
  }
}

// In doubles, so that nothing overflows.
void read_width(const Lfm2Config& c, Lfm2Shape& s, Problems& problems) {
  double inner = static_cast<double>(s.inner);
  if (c.block_auto_adjust_ff_dim) {
    const double unit = static_cast<double>(c.block_multiple_of);
    inner = std::floor(2 * inner / 3);
    if (c.block_ffn_dim_multiplier) inner = unit * std::ceil(std::floor(*c.block_ffn_dim_multiplier * inner) / unit);
  }
  const double layers = static_cast<double>(s.layers), hidden = static_cast<double>(s.hidden);
  check_parameters(layers * hidden * (3 * inner + 4 * hidden), "intermediate_size", problems);
  const bool fits = inner >= 1 && inner <= 2147483647;
  problems.require(fits, "intermediate_size",
                   fmt::format("the MLP's width, {:.0f} by it and block_ffn_dim_multiplier, is none", inner));
  if (fits) s.mlp_inner = static_cast<std::int64_t>(inner);
}

// What it can be that this is not.
void refuse_others(const Lfm2Keys& c, const Lfm2Shape& s, Problems& problems) {
  refuse_keys(c.model_type,
              {{"rms_norm_eps", c.rms_norm_eps.has_value()},
               {"attention_dropout", c.attention_dropout.value_or(0) != 0},
               {"mlp_bias", c.mlp_bias.value_or(false)},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()},
               {"pretraining_tp", c.pretraining_tp.has_value()}},
              problems);
  problems.require(s.activation_name == "silu" || s.activation_name == "swish", "hidden_act",
                   fmt::format("got {}, expected silu, which these models have", s.activation_name));
  problems.require(c.use_pos_enc.value_or(true), "use_pos_enc", "got false, expected true");
  problems.require(!c.theta || *c.theta == s.rope.rope_theta, "theta",
                   fmt::format("got {}, expected rope_theta ({}), which alone is read in transformers",
                               c.theta.value_or(0), s.rope.rope_theta));
}

template <class C>
bool resolve_layers(const C& c, Lfm2Shape& s, Problems& problems) {
  if (!resolve_base(as_llama(c), s, problems)) return false;
  s.last_norm = "embedding_norm";
  s.qk_norm = QkNorm::head, s.q_norm = "q_layernorm", s.k_norm = "k_layernorm", s.output = "out_proj";
  s.taps = c.conv_L_cache, s.conv_bias = c.conv_bias;
  refuse_others(c, s, problems);
  s.convolves.assign(static_cast<std::size_t>(std::min<std::int64_t>(s.layers, 10000)), false);
  s.sparse.assign(s.convolves.size(), false);
  if (c.layer_types) read_types(*c.layer_types, s, problems);
  return true;
}

void read_lfm2_experts(const Lfm2MoeConfig& c, Lfm2Shape& s, Problems& problems) {
  for (std::size_t i = 0; i < s.sparse.size(); ++i) s.sparse[i] = static_cast<std::int64_t>(i) >= c.num_dense_layers;
  check_experts_per_token(c.num_experts_per_tok, c.num_experts, problems);
  const double layers = static_cast<double>(s.layers), hidden = static_cast<double>(s.hidden);
  const double experts = layers * static_cast<double>(c.num_experts);
  check_parameters(3 * hidden * experts * static_cast<double>(c.moe_intermediate_size) + 4 * layers * hidden * hidden,
                   "num_experts", problems);
  check_all_experts(experts, "num_experts", problems);
  s.experts = {.hidden = s.hidden,
               .inner = c.moe_intermediate_size,
               .experts = c.num_experts,
               .per_token = c.num_experts_per_tok,
               .by_groups = nn::GroupedRouter::Options{.rule = {.score = ops::GroupedRule::Score::sigmoid,
                                                                .per_token = c.num_experts_per_tok,
                                                                .normalise = c.norm_topk_prob,
                                                                .floor = 1e-6,
                                                                .scale = c.routed_scaling_factor},
                                                       .corrected = c.use_expert_bias,
                                                       .correction_rate = c.router_bias_update_rate,
                                                       .weight = "gate.weight",
                                                       .correction = "expert_bias"},
               .router = "",
               .std = s.std,
               .gate = "w1",
               .up = "w3",
               .down = "w2"};
}

Node layers_config(const LlamaConfig& llama, const Lfm2Shape& s, const std::string& dtype) {
  Node node = to_hf_config(llama, s, dtype);
  std::erase_if(node.entries(), [](const Node::Entry& entry) {
    return entry.first == "attention_dropout" || entry.first == "hidden_act";
  });
  node.at_or_add("conv_L_cache") = node_of(s.taps);
  node.at_or_add("conv_bias") = node_of(s.conv_bias);
  std::vector<std::string> types;
  for (const bool convolves : s.convolves) types.push_back(convolves ? kConvolution : kFullAttention);
  node.at_or_add("layer_types") = node_of(types);
  return node;
}

bool any(const std::vector<bool>& which) { return std::find(which.begin(), which.end(), true) != which.end(); }

}  // namespace

bool Lfm2Shape::any_convolves() const { return any(convolves); }
bool Lfm2Shape::any_sparse() const { return any(sparse); }

Lfm2Shape resolve(const Lfm2Config& c, Problems& problems) {
  Lfm2Shape s;
  if (!resolve_layers(c, s, problems)) return s;
  problems.require(c.block_use_swiglu.value_or(true), "block_use_swiglu", "got false, expected true");
  if (!c.layer_types && c.full_attn_idxs) read_indices(*c.full_attn_idxs, s, problems);
  read_width(c, s, problems);
  return s;
}

Lfm2Shape resolve(const Lfm2MoeConfig& c, Problems& problems) {
  Lfm2Shape s;
  if (!resolve_layers(c, s, problems)) return s;
  problems.require(c.layer_types.has_value(), "layer_types", "missing; lfm2_moe has no default for it");
  s.mlp_inner = s.inner;
  read_lfm2_experts(c, s, problems);
  return s;
}

void Lfm2Config::validate(Problems& problems) const { resolve(*this, problems); }
void Lfm2MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Lfm2Config& c, const Lfm2Shape& s, const std::string& dtype) {
  Node node = layers_config(as_llama(c), s, dtype);
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("block_auto_adjust_ff_dim", node_of(c.block_auto_adjust_ff_dim));
  put("block_ffn_dim_multiplier",
      c.block_ffn_dim_multiplier ? nn::hf_float(*c.block_ffn_dim_multiplier) : Node());
  // What others read beside hidden_size.
  for (const auto& [key, given] :
       {std::pair{"block_dim", c.block_dim}, {"conv_dim", c.conv_dim}, {"conv_dim_out", c.conv_dim_out}})
    if (given) put(key, node_of(*given));
  put("block_multiple_of", node_of(c.block_multiple_of));
  std::vector<std::int64_t> attending;
  for (std::size_t i = 0; i < s.convolves.size(); ++i)
    if (!s.convolves[i]) attending.push_back(static_cast<std::int64_t>(i));
  // Beside layer_types they say nothing, and stay what they were.
  if (c.full_attn_idxs)
    put("full_attn_idxs", node_of(*c.full_attn_idxs));
  else
    put("full_attn_idxs", c.layer_types ? Node() : node_of(attending));
  sort_keys(node);
  return node;
}

Node to_hf_config(const Lfm2MoeConfig& c, const Lfm2Shape& s, const std::string& dtype) {
  Node node = layers_config(as_llama(c), s, dtype);
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  put("moe_intermediate_size", node_of(c.moe_intermediate_size)), put("norm_topk_prob", node_of(c.norm_topk_prob));
  put("num_dense_layers", node_of(c.num_dense_layers)), put("num_experts", node_of(c.num_experts));
  put("num_experts_per_tok", node_of(c.num_experts_per_tok));
  put("output_router_logits", node_of(c.output_router_logits));
  put("routed_scaling_factor", nn::hf_float(c.routed_scaling_factor));
  put("use_expert_bias", node_of(c.use_expert_bias));
  if (c.router_bias_update_rate > 0) put("router_bias_update_rate", nn::hf_float(c.router_bias_update_rate));
  sort_keys(node);
  return node;
}

}  // namespace hone::models
