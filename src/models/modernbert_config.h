// What config.json of ModernBERT may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/op_options.h"
#include "models/encoder_keys.h"
#include "nn/rope.h"

namespace hone::models {

enum class Pooling { cls, mean };

}  // namespace hone::models

template <>
inline constexpr auto hone::config::enum_names<hone::models::Pooling> =
    std::to_array<std::pair<hone::models::Pooling, std::string_view>>({{hone::models::Pooling::cls, "cls"},
                                                                       {hone::models::Pooling::mean, "mean"}});

namespace hone::models {

struct ModernBertConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "modernbert", hidden_activation = "gelu", classifier_activation = "gelu";
  std::int64_t vocab_size = 50368, hidden_size = 768, num_hidden_layers = 22, num_attention_heads = 12,
               intermediate_size = 1152, max_position_embeddings = 8192, local_attention = 128;
  std::optional<std::int64_t> global_attn_every_n_layers;
  std::optional<std::vector<std::string>> layer_types;
  config::Open rope_parameters;
  std::optional<double> global_rope_theta, local_rope_theta, layer_norm_eps;
  double norm_eps = 1e-5, initializer_range = 0.02, initializer_cutoff_factor = 2;
  double attention_dropout = 0, embedding_dropout = 0, mlp_dropout = 0, classifier_dropout = 0;
  bool norm_bias = false, attention_bias = false, mlp_bias = false, classifier_bias = false, decoder_bias = true;
  bool tie_word_embeddings = true;
  Pooling classifier_pooling = Pooling::cls;
  bool deterministic_flash_attn = false, sparse_prediction = false;
  std::int64_t sparse_pred_ignore_index = -100;
  std::optional<std::string> position_embedding_type;
  std::optional<bool> reference_compile, repad_logits_with_grad, gradient_checkpointing;
  config::Open bos_token_id = id("50281"), eos_token_id = id("50282"), pad_token_id = id("50283"),
               cls_token_id = id("50281"), sep_token_id = id("50282");

  static constexpr auto own_fields() {
    using C = ModernBertConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, "modernbert."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the gated MLP.", size),
        field("hidden_activation", &C::hidden_activation, "Activation of the MLP, by Hugging Face's name."),
        field("max_position_embeddings", &C::max_position_embeddings, "Longest text the model is meant for.", size),
        field("layer_types", &C::layer_types, "full_attention or sliding_attention of each layer."),
        field("global_attn_every_n_layers", &C::global_attn_every_n_layers,
              "Without layer_types: the first layer of so many sees all tokens, the others slide; default 3.",
              at_least(1)),
        field("local_attention", &C::local_attention,
              "A token of a sliding layer sees half so many on each side, and itself.", {.low = 0, .high = 2147483647}),
        field("rope_parameters", &C::rope_parameters,
              "Rotary position embedding: sections full_attention and sliding_attention."),
        field("global_rope_theta", &C::global_rope_theta, "Base where rope_parameters says none; default 160000.",
              {.low = 1, .high = 1e15}),
        field("local_rope_theta", &C::local_rope_theta, "The same of sliding layers; default 10000.",
              {.low = 1, .high = 1e15}),
        field("norm_eps", &C::norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("norm_bias", &C::norm_bias, "Biases in LayerNorm."),
        field("attention_bias", &C::attention_bias, "Biases in the attention's projections."),
        field("mlp_bias", &C::mlp_bias, "Biases in the MLP."),
        field("attention_dropout", &C::attention_dropout,
              "Share that training drops of the attention's weights, and of what attention adds.", share),
        field("embedding_dropout", &C::embedding_dropout, "Share that training drops of the embeddings.", share),
        field("mlp_dropout", &C::mlp_dropout, "Share that training drops inside the MLP.", share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("initializer_cutoff_factor", &C::initializer_cutoff_factor,
              "Kept for others: fresh weights are normal numbers that nothing cuts off."),
        field("classifier_pooling", &C::classifier_pooling,
              "What a classification head reads: the first token (cls), or the mean of all."),
        field("classifier_dropout", &C::classifier_dropout, "Share that training drops before the classifier.", share),
        field("classifier_bias", &C::classifier_bias, "A bias in the heads' first product."),
        field("classifier_activation", &C::classifier_activation, "The heads' activation, by Hugging Face's name."),
        field("decoder_bias", &C::decoder_bias, "A bias of each token in the head for masked tokens."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("sparse_prediction", &C::sparse_prediction, "No effect: only tokens that are asked for are computed."),
        field("sparse_pred_ignore_index", &C::sparse_pred_ignore_index, "No effect."),
        field("deterministic_flash_attn", &C::deterministic_flash_attn, "No effect; run.deterministic says it."),
        field("layer_norm_eps", &C::layer_norm_eps, "No effect, in transformers as here: norm_eps counts."),
        field("position_embedding_type", &C::position_embedding_type, "No effect, in transformers as here."),
        field("reference_compile", &C::reference_compile, "No effect."),
        field("repad_logits_with_grad", &C::repad_logits_with_grad, "No effect."),
        field("gradient_checkpointing", &C::gradient_checkpointing, "No effect; trainer.checkpoint_blocks does it."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("cls_token_id", &C::cls_token_id, "Kept for others."),
        field("sep_token_id", &C::sep_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const;

 private:
  static config::Open id(const char* number) { return config::Open{config::Node::scalar(number)}; }
};

// What it means.
struct ModernBertShape : EncoderShape {
  ops::Activation head_activation = ops::Activation::gelu;
  std::vector<bool> slides;  // per layer
  std::int64_t window = 0;   // of those that slide, as ops::Mask's
  nn::RopeConfig rope, sliding_rope;
};
ModernBertShape resolve(const ModernBertConfig& config, const HeadRequest& head);  // throws Error(config)

// Keys of config.json as transformers 5 writes them, of layers and of positions.
config::Node layer_keys(const ModernBertShape& shape);

}  // namespace hone::models
