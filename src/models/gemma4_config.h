// What config.json of a Gemma 4 text model may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include "models/llama_config.h"

namespace hone::models {

struct Gemma4Config : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::string> hidden_activation;
  std::optional<double> final_logit_softcapping;
  std::optional<std::int64_t> global_head_dim, num_global_key_value_heads;
  config::Open per_layer_config;
  std::optional<bool> attention_k_eq_v;
  std::optional<std::int64_t> num_kv_shared_layers;
  std::optional<bool> use_double_wide_mlp;
  std::optional<std::int64_t> hidden_size_per_layer_input, vocab_size_per_layer_input;
  std::optional<bool> enable_moe_block;
  std::optional<std::int64_t> num_experts, top_k_experts, moe_intermediate_size, expert_intermediate_size;
  config::Open use_bidirectional_attention{config::Node::scalar("default")};

  static constexpr auto fields() {
    using C = Gemma4Config;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("hidden_activation", &C::hidden_activation, "Activation of the MLP's gate; gelu_pytorch_tanh."),
            field("final_logit_softcapping", &C::final_logit_softcapping,
                  "Cap c of logits l, c tanh(l / c); null = none.", {.low = 1e-6, .high = 1e9}),
            field("global_head_dim", &C::global_head_dim,
                  "Size of a head in layers that see all tokens, without per_layer_config; default 512.",
                  {.low = 2, .high = 65536}),
            field("num_global_key_value_heads", &C::num_global_key_value_heads,
                  "Key and value heads of these layers, with attention_k_eq_v and without per_layer_config; default: "
                  "num_key_value_heads.",
                  {.low = 1, .high = 65536}),
            field(
                "per_layer_config", &C::per_layer_config,
                "By the numbers of layers what differs in them: head_dim and num_key_value_heads, alike in all layers "
                "of a kind."),
            field("attention_k_eq_v", &C::attention_k_eq_v,
                  "Whether in layers that see all tokens values are made of what keys are made of."),
            field("num_kv_shared_layers", &C::num_kv_shared_layers,
                  "Last layers that have no keys and values, but those of the last layer of their kind before; default "
                  "0.",
                  at_least(0)),
            field("use_double_wide_mlp", &C::use_double_wide_mlp, "Whether these layers' MLP is twice as wide."),
            field("hidden_size_per_layer_input", &C::hidden_size_per_layer_input,
                  "Width of what tokens bring to each layer besides; default 256, 0 = nothing.",
                  {.low = 0, .high = 65536}),
            field("vocab_size_per_layer_input", &C::vocab_size_per_layer_input,
                  "Rows of the table of it; default 262144.", size),
            field("enable_moe_block", &C::enable_moe_block, "Whether layers have routed experts beside the MLP."),
            field("num_experts", &C::num_experts, "Experts of a layer.", {.low = 1, .high = 65536}),
            field("top_k_experts", &C::top_k_experts, "Experts that a token goes to.", {.low = 1, .high = 65536}),
            field("moe_intermediate_size", &C::moe_intermediate_size, "Width inside an expert.", size),
            field("expert_intermediate_size", &C::expert_intermediate_size,
                  "Has no effect: moe_intermediate_size says it."),
            field("use_bidirectional_attention", &C::use_bidirectional_attention,
                  "null, or vision, which is of images and means nothing here.")});
  }
  void validate(Problems& problems) const;
};

struct Gemma4Shape : LlamaShape {
  std::int64_t global_kv_heads = 0;
  bool values_of_keys = false;        // in layers that see all tokens
  std::vector<std::int64_t> keys_of;  // per layer: whose keys and values it attends to; mostly its own
  bool double_wide = false;
  std::int64_t per_layer = 0, per_layer_vocab = 0;                    // of what tokens bring to each layer; 0: nothing
  std::int64_t experts = 0, experts_per_token = 0, expert_inner = 0;  // 0: there are none

  bool is_global(std::int64_t layer) const { return windows[layer] == 0; }
  bool shares(std::int64_t layer) const { return keys_of[layer] != layer; }
  bool is_shared(std::int64_t layer) const;  // whether others attend to its keys and values
  std::int64_t head_size_of(std::int64_t layer) const { return is_global(layer) ? global_head_size : head_size; }
  std::int64_t kv_heads_of(std::int64_t layer) const { return is_global(layer) ? global_kv_heads : kv_heads; }
  std::int64_t inner_of(std::int64_t layer) const { return double_wide && shares(layer) ? 2 * inner : inner; }
};
Gemma4Shape resolve(const Gemma4Config& config, Problems& problems);
// Whose keys and values each layer attends to, where so many of the last ones have none of their own.
void read_shared_keys(std::int64_t shared, Gemma4Shape& shape, Problems& problems);

config::Node to_hf_config(const Gemma4Config& config, const Gemma4Shape& shape, const std::string& dtype);
void warn_changed(const Gemma4Config& config);  // of what is taken otherwise than it is said

}  // namespace hone::models
