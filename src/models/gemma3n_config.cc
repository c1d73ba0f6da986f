// Gemma 3n's config.json, with transformers' defaults.
#include "models/gemma3n_config.h"

#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "models/sort_keys.h"

namespace hone::models {
namespace {

using config::Node;

constexpr std::int64_t kUsualInner = 16384, kEvery = 5, kSparseLayers = 10;
constexpr double kUsualSparsity = 0.95;

Node count_of(std::int64_t value) { return config::Values<std::int64_t>::write(value); }
Node said(bool value) { return config::Values<bool>::write(value); }

std::int64_t known_layers(const Gemma3nConfig& c) { return std::min<std::int64_t>(c.num_hidden_layers, 10000); }

// Llama's keys as transformers understands them here.
LlamaConfig as_llama(const Gemma3nConfig& c, std::int64_t inner) {
  LlamaConfig made;
  static_cast<LabelKeys&>(made) = c;
  made.model_type = c.model_type, made.hidden_act = c.hidden_activation;
  made.vocab_size = c.vocab_size, made.hidden_size = c.hidden_size, made.intermediate_size = inner;
  made.num_hidden_layers = c.num_hidden_layers, made.num_attention_heads = c.num_attention_heads;
  made.num_key_value_heads.node = count_of(c.num_key_value_heads);
  made.head_dim = c.head_dim, made.max_position_embeddings = c.max_position_embeddings;
  made.rms_norm_eps = c.rms_norm_eps, made.initializer_range = c.initializer_range;
  made.tie_word_embeddings = c.tie_word_embeddings, made.attention_bias = c.attention_bias;
  made.attention_dropout = c.attention_dropout;
  made.rope_parameters = c.rope_parameters, made.rope_theta = c.rope_theta;
  made.sliding_window.node = count_of(c.sliding_window);
  made.layer_types = c.layer_types;
  if (!made.layer_types) {
    made.layer_types.emplace();
    for (std::int64_t i = 1; i <= known_layers(c); ++i)
      made.layer_types->push_back(i % kEvery != 0 ? "sliding_attention" : "full_attention");
  }
  made.bos_token_id = c.bos_token_id, made.eos_token_id = c.eos_token_id, made.pad_token_id = c.pad_token_id;
  return made;
}

std::vector<std::int64_t> read_inners(const Gemma3nConfig& c, Problems& problems) {
  std::vector<std::int64_t> inners{kUsualInner};
  if (!c.intermediate_size.node.is_null())
    config::Values<std::vector<std::int64_t>>::read(c.intermediate_size.node, inners,
                                                    {problems, "intermediate_size", {.low = 1, .high = 2147483647}});
  if (inners.size() == 1) inners.resize(static_cast<std::size_t>(known_layers(c)), inners[0]);
  problems.require(std::ssize(inners) == c.num_hidden_layers, "intermediate_size",
                   fmt::format("got {} numbers, expected one, or num_hidden_layers ({})", inners.size(),
                               c.num_hidden_layers));
  return inners;
}

std::vector<double> read_sparsity(const Gemma3nConfig& c, Problems& problems) {
  std::vector<double> made = c.activation_sparsity_pattern.value_or(std::vector<double>());
  if (!c.activation_sparsity_pattern)
    for (std::int64_t i = 0; i < known_layers(c); ++i)
      made.push_back(known_layers(c) > kSparseLayers && i < kSparseLayers ? kUsualSparsity : 0);
  problems.require(std::ssize(made) == c.num_hidden_layers, "activation_sparsity_pattern",
                   fmt::format("got {} numbers, expected num_hidden_layers ({})", made.size(), c.num_hidden_layers));
  return made;
}

void check_numbers(const Gemma3nConfig& c, Problems& problems) {
  const Node& scaling = c.rope_scaling.node;
  problems.require(scaling.is_null(), "rope_scaling", "got a section, expected null");
  problems.require(c.altup_active_idx < c.altup_num_inputs, "altup_active_idx",
                   fmt::format("got {}, expected less than altup_num_inputs ({})", c.altup_active_idx,
                               c.altup_num_inputs));
  problems.require(c.hidden_size % c.num_attention_heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads ({}), as transformers wants it",
                               c.hidden_size, c.num_attention_heads));
  const auto layers = static_cast<double>(c.num_hidden_layers), wide = static_cast<double>(c.hidden_size);
  check_parameters(layers * static_cast<double>(c.vocab_size_per_layer_input) *
                       static_cast<double>(c.hidden_size_per_layer_input),
                   "vocab_size_per_layer_input", problems);
  check_parameters(layers * wide * static_cast<double>(c.laurel_rank) +
                       2 * static_cast<double>(c.altup_num_inputs) * wide * wide,
                   "altup_num_inputs", problems);
}

}  // namespace

Gemma3nShape resolve(const Gemma3nConfig& c, Problems& problems) {
  Gemma3nShape s;
  const std::size_t before = problems.size();
  s.inners = read_inners(c, problems), s.sparsity = read_sparsity(c, problems);
  check_numbers(c, problems);
  if (problems.size() != before) return s;
  const LlamaConfig llama = as_llama(c, s.inners[0]);
  if (!resolve_base(llama, s, problems)) return s;
  s.attention_scale = 1;
  s.embedding_scale = std::sqrt(static_cast<double>(s.hidden));
  s.logit_soft_cap = c.final_logit_softcapping;
  s.global_head_size = s.head_size, s.global_kv_heads = s.kv_heads;
  s.per_layer = c.hidden_size_per_layer_input, s.per_layer_vocab = c.vocab_size_per_layer_input;
  s.streams = c.altup_num_inputs, s.active = c.altup_active_idx, s.laurel = c.laurel_rank;
  s.coefficient_clip = c.altup_coef_clip, s.scales_corrected = c.altup_correct_scale;
  problems.require(s.head_size % 2 == 0, "head_dim", fmt::format("got {}, expected an even number", s.head_size));
  read_shared_keys(c.num_kv_shared_layers, s, problems);
  read_two_ropes(llama, c.rope_local_base_freq.value_or(10000), 1e6, s, problems);
  return s;
}

void Gemma3nConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Gemma3nConfig& c, const Gemma3nShape& s, const std::string& dtype) {
  Node node = to_hf_config(as_llama(c, s.inner), s, dtype);
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  std::vector<Node> sparsity;
  for (const double share : s.sparsity) sparsity.push_back(nn::hf_float(share));
  put("activation_sparsity_pattern", Node::list(std::move(sparsity)));
  put("altup_active_idx", count_of(s.active));
  put("altup_coef_clip", nn::hf_float(s.coefficient_clip));
  put("altup_correct_scale", said(s.scales_corrected));
  put("altup_num_inputs", count_of(s.streams));
  put("final_logit_softcapping", nn::hf_float(s.logit_soft_cap));
  put("hidden_size_per_layer_input", count_of(s.per_layer));
  put("intermediate_size", config::Values<std::vector<std::int64_t>>::write(s.inners));
  put("laurel_rank", count_of(s.laurel));
  put("num_kv_shared_layers", count_of(c.num_kv_shared_layers));
  put("vocab_size_per_layer_input", count_of(s.per_layer_vocab));
  sort_keys(node);
  return node;
}

}  // namespace hone::models
