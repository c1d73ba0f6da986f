// What config.json of a Gemma 3n text model may say, and the plain numbers that it means.
#pragma once

#include <vector>

#include "models/gemma4_config.h"

namespace hone::models {

struct Gemma3nConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "gemma3n_text", hidden_activation = "gelu_pytorch_tanh";
  std::int64_t vocab_size = 262400, hidden_size = 2048, num_hidden_layers = 35, num_attention_heads = 8,
               num_key_value_heads = 2, head_dim = 256, max_position_embeddings = 32768,
               vocab_size_per_layer_input = 262144, hidden_size_per_layer_input = 256, altup_active_idx = 0,
               altup_num_inputs = 4, num_kv_shared_layers = 15, laurel_rank = 64, sliding_window = 512;
  config::Open intermediate_size;
  std::optional<std::vector<double>> activation_sparsity_pattern;
  double rms_norm_eps = 1e-6, initializer_range = 0.02, attention_dropout = 0, altup_coef_clip = 120,
         final_logit_softcapping = 30;
  std::optional<double> rope_theta, rope_local_base_freq, altup_lr_multiplier;
  bool tie_word_embeddings = true, attention_bias = false, altup_correct_scale = true;
  config::Open rope_parameters, rope_scaling;
  std::optional<std::vector<std::string>> layer_types;
  std::optional<std::int64_t> query_pre_attn_scalar;
  config::Open bos_token_id{config::Node::scalar("default")}, eos_token_id{config::Node::scalar("default")},
      pad_token_id{config::Node::scalar("default")};

  static constexpr auto fields() {
    using C = Gemma3nConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple_cat(
        LabelKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "gemma3n_text."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("hidden_size", &C::hidden_size, "Width of each of the residual streams.", size),
            field("intermediate_size", &C::intermediate_size,
                  "Width inside the MLP; a list: of each layer's; default 16384."),
            field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("num_attention_heads", &C::num_attention_heads, "Query heads.", {.low = 1, .high = 65536}),
            field("num_key_value_heads", &C::num_key_value_heads, "Key and value heads.", {.low = 1, .high = 65536}),
            field("head_dim", &C::head_dim, "Size of a head.", {.low = 2, .high = 65536}),
            field("max_position_embeddings", &C::max_position_embeddings,
                  "Longest sequence the model is meant for.", size),
            field("hidden_activation", &C::hidden_activation, "Activation of the MLP's gate."),
            field("rms_norm_eps", &C::rms_norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
                  {.low = 0, .high = 100}),
            field("tie_word_embeddings", &C::tie_word_embeddings,
                  "Use the embedding table as the head's weight."),
            field("attention_bias", &C::attention_bias, "Biases in the attention's projections."),
            field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
                  {.low = 0, .high = 0.999}),
            field("rope_parameters", &C::rope_parameters,
                  "Rotary position embedding by kind of layer: full_attention, sliding_attention."),
            field("rope_scaling", &C::rope_scaling, "Only null."),
            field("rope_theta", &C::rope_theta,
                  "Base of the frequencies of layers that see all, in transformers 4's form; default 1000000.",
                  {.low = 1, .high = 1e15}),
            field("rope_local_base_freq", &C::rope_local_base_freq, "The same of layers that slide; default 10000.",
                  {.low = 1, .high = 1e15}),
            field("sliding_window", &C::sliding_window, "Tokens that a token of a sliding layer sees.", size),
            field("layer_types", &C::layer_types,
                  "full_attention or sliding_attention for each layer; default: every fifth sees all."),
            field("final_logit_softcapping", &C::final_logit_softcapping,
                  "Cap c of logits l, c tanh(l / c).", {.low = 1e-6, .high = 1e9}),
            field("vocab_size_per_layer_input", &C::vocab_size_per_layer_input,
                  "Rows of the table of what tokens bring to each layer; those beyond bring what the first does.",
                  size),
            field("hidden_size_per_layer_input", &C::hidden_size_per_layer_input, "Width of that.",
                  {.low = 1, .high = 65536}),
            field("num_kv_shared_layers", &C::num_kv_shared_layers,
                  "Last layers that use the keys and values of the last layer of their kind before.", at_least(0)),
            field("laurel_rank", &C::laurel_rank, "Width of the product beside attention.", {.low = 1, .high = 65536}),
            field("activation_sparsity_pattern", &C::activation_sparsity_pattern,
                  "Of each layer the share of the MLP's gate that is cut off; default: 0.95 of the first ten of more "
                  "than ten.",
                  {.low = 0, .high = 0.999999}),
            field("altup_num_inputs", &C::altup_num_inputs, "Residual streams.", {.low = 1, .high = 64}),
            field("altup_active_idx", &C::altup_active_idx, "Which one a block reads, from 0.", at_least(0)),
            field("altup_coef_clip", &C::altup_coef_clip, "How large weights that mix streams may be in training.",
                  {.low = 1e-6, .high = 1e9}),
            field("altup_correct_scale", &C::altup_correct_scale,
                  "Whether what a layer's input meets is scaled."),
            field("altup_lr_multiplier", &C::altup_lr_multiplier, "Has no effect, in transformers as here."),
            field("query_pre_attn_scalar", &C::query_pre_attn_scalar, "Has no effect, in transformers as here."),
            field("bos_token_id", &C::bos_token_id, "Token that begins texts."),
            field("eos_token_id", &C::eos_token_id, "Token that ends texts, or several."),
            field("pad_token_id", &C::pad_token_id, "Token whose row gets no gradient; default 0.")});
  }
  void validate(Problems& problems) const;
};

struct Gemma3nShape : Gemma4Shape {
  std::vector<std::int64_t> inners;  // of each layer's MLP
  std::vector<double> sparsity;      // of each layer's gate; 0: nothing is cut off
  std::int64_t streams = 4, active = 0, laurel = 64;
  double coefficient_clip = 120;
  bool scales_corrected = true;
};
Gemma3nShape resolve(const Gemma3nConfig& config, Problems& problems);
config::Node to_hf_config(const Gemma3nConfig& config, const Gemma3nShape& shape, const std::string& dtype);

}  // namespace hone::models
