// What config.json of DeBERTa v2 and v3 may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/op_options.h"
#include "models/encoder_head.h"
#include "models/label_keys.h"

namespace hone::models {

struct DebertaConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "deberta-v2", hidden_act = "gelu", pooler_hidden_act = "gelu", norm_rel_ebd = "none";
  std::int64_t vocab_size = 128100, hidden_size = 1536, num_hidden_layers = 24, num_attention_heads = 24,
               intermediate_size = 6144, max_position_embeddings = 512, type_vocab_size = 0;
  bool relative_attention = false, position_biased_input = true, share_att_key = false, legacy = true;
  std::int64_t max_relative_positions = -1, position_buckets = -1;
  config::Open pos_att_type;
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1, pooler_dropout = 0;
  std::optional<double> cls_dropout;
  std::optional<std::int64_t> pooler_hidden_size, attention_head_size, embedding_size;
  std::int64_t conv_kernel_size = 0, conv_groups = 1;
  std::string conv_act = "tanh";
  double initializer_range = 0.02, layer_norm_eps = 1e-7;
  bool tie_word_embeddings = true;
  config::Open bos_token_id, eos_token_id, pad_token_id{config::Node::scalar("0")};

  static constexpr auto own_fields() {
    using C = DebertaConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr config::Range some{.low = 0, .high = 2147483647}, any{.low = -2147483647, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "deberta-v2, as of version 3, too."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("max_position_embeddings", &C::max_position_embeddings,
              "Longest text the model is meant for; with position_biased_input no document may be longer.", size),
        field("type_vocab_size", &C::type_vocab_size,
              "Token types: 0 for the first of two texts, 1 for the second; "
              "0: there are none.",
              some),
        field("position_biased_input", &C::position_biased_input, "Learned positions are added to the words."),
        field("relative_attention", &C::relative_attention, "Scores also go by how far tokens stand apart."),
        field("pos_att_type", &C::pos_att_type,
              "By what: c2p, what a query says of distances; p2c, what a key says; a list, or with | between."),
        field("position_buckets", &C::position_buckets,
              "Distances from half of so many on share buckets, by their logarithms; -1: each has its own.", any),
        field("max_relative_positions", &C::max_relative_positions,
              "Distances that are told apart; -1: max_position_embeddings.", any),
        field("share_att_key", &C::share_att_key, "Distances go through the projections of keys and queries."),
        field("norm_rel_ebd", &C::norm_rel_ebd, "layer_norm: the table of distances is normalised; or none."),
        field("conv_kernel_size", &C::conv_kernel_size,
              "Tokens that a convolution beside the first layer reads, an odd number; 0: there is none.",
              {.low = 0, .high = 101}),
        field("conv_act", &C::conv_act, "Its activation."),
        field("conv_groups", &C::conv_groups, "Must be 1."),
        field("hidden_act", &C::hidden_act, "Activation of the MLP, by Hugging Face's name."),
        field("hidden_dropout_prob", &C::hidden_dropout_prob, "Share of hidden numbers that training drops.", share),
        field("attention_probs_dropout_prob", &C::attention_probs_dropout_prob,
              "Share of attention weights that training drops.", share),
        field("pooler_hidden_act", &C::pooler_hidden_act, "Activation in front of a classifier of texts."),
        field("pooler_hidden_size", &C::pooler_hidden_size, "Must be hidden_size."),
        field("pooler_dropout", &C::pooler_dropout, "Share that training drops of what the pooler reads.", share),
        field("cls_dropout", &C::cls_dropout,
              "Share that training drops before a classifier of texts; default: hidden_dropout_prob.", share),
        field("attention_head_size", &C::attention_head_size, "Must be hidden_size / num_attention_heads."),
        field("embedding_size", &C::embedding_size, "Must be hidden_size."),
        field("legacy", &C::legacy, "Which form a head for masked tokens has: cls.predictions, or lm_predictions."),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const;
};

// nothing: tanh.
using MaybeActivation = std::optional<ops::Activation>;

// What it means.
struct DebertaShape : EncoderHead {
  std::int64_t head_size = 0, no_gradient_id = -1;
  std::int64_t span = 0;  // distances -span ... span - 1 are told apart, buckets of them if there are
  std::int64_t max_distance = 0, kinds = 0;  // kinds: of scores beside those of contents
  bool c2p = false, p2c = false, norms_distances = false;
  ops::Activation activation = ops::Activation::gelu;
  MaybeActivation pooler_activation, conv_activation;
};
DebertaShape resolve(const DebertaConfig& config, const HeadRequest& head);  // throws Error(config)

}  // namespace hone::models
