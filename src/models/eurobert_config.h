// What config.json of EuroBERT may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "models/encoder_keys.h"
#include "nn/rope.h"

namespace hone::models {

// What labels of texts are told by: the first token, the mean of all, or the mean of what is told by each.
enum class EuroPooling { bos, mean, late };

}  // namespace hone::models

template <>
inline constexpr auto hone::config::enum_names<hone::models::EuroPooling> =
    std::to_array<std::pair<hone::models::EuroPooling, std::string_view>>({{hone::models::EuroPooling::bos, "bos"},
                                                                           {hone::models::EuroPooling::mean, "mean"},
                                                                           {hone::models::EuroPooling::late, "late"}});

namespace hone::models {

struct EuroBertConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "eurobert", hidden_act = "silu";
  std::int64_t vocab_size = 128256, hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12,
               num_attention_heads = 12, max_position_embeddings = 8192, pretraining_tp = 1;
  std::optional<std::int64_t> num_key_value_heads, head_dim;
  double initializer_range = 0.02, rms_norm_eps = 1e-5, attention_dropout = 0;
  bool tie_word_embeddings = false, attention_bias = false, mlp_bias = false;
  config::Open rope_parameters, rope_scaling;
  std::optional<double> rope_theta, hidden_dropout;
  EuroPooling classifier_pooling = EuroPooling::late;
  std::optional<std::string> clf_pooling, bos_token, eos_token, mask_token, pad_token;
  config::Open bos_token_id = id("128000"), eos_token_id = id("128001"), pad_token_id = id("128001"),
               mask_token_id = id("128002");

  static constexpr auto own_fields() {
    using C = EuroBertConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("model_type", &C::model_type, "eurobert."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("intermediate_size", &C::intermediate_size, "Width inside the gated MLP.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Query heads.", {.low = 1, .high = 65536}),
        field("num_key_value_heads", &C::num_key_value_heads, "Key and value heads; default: as many as query heads.",
              {.low = 1, .high = 65536}),
        field("head_dim", &C::head_dim, "Size of a head; default: hidden_size / num_attention_heads.",
              {.low = 2, .high = 65536}),
        field("hidden_act", &C::hidden_act, "Activation of the MLP, by Hugging Face's name."),
        field("max_position_embeddings", &C::max_position_embeddings, "Longest text the model is meant for.", size),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("rms_norm_eps", &C::rms_norm_eps, "Added to the mean square in RMSNorm.", {.low = 0, .high = 1}),
        field("tie_word_embeddings", &C::tie_word_embeddings,
              "The head for masked tokens uses the table of words; else it has a matrix of its own."),
        field("attention_bias", &C::attention_bias, "Biases in the attention's projections."),
        field("mlp_bias", &C::mlp_bias, "Biases in the MLP, and in the head for masked tokens."),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.",
              {.low = 0, .high = 0.999}),
        field("rope_parameters", &C::rope_parameters, "Rotary position embedding, transformers 5's form."),
        field("rope_scaling", &C::rope_scaling,
              "Rotary position embedding, transformers 4's form; wins over rope_parameters."),
        field("rope_theta", &C::rope_theta, "Base of the rotary frequencies where rope_parameters says none.",
              {.low = 1, .high = 1e15}),
        field("classifier_pooling", &C::classifier_pooling,
              "What labels of texts are told by: the first token (bos), the mean of all (mean), or the mean of what is "
              "told by each (late)."),
        field("pretraining_tp", &C::pretraining_tp, "Must be 1."),
        field("clf_pooling", &C::clf_pooling, "No effect, in transformers as here: classifier_pooling counts."),
        field("hidden_dropout", &C::hidden_dropout, "No effect, in transformers as here."),
        field("bos_token", &C::bos_token, "No effect: the tokenizer says it, as of the three after it."),
        field("eos_token", &C::eos_token, "No effect."),
        field("mask_token", &C::mask_token, "No effect."),
        field("pad_token", &C::pad_token, "No effect."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("mask_token_id", &C::mask_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const;

 private:
  static config::Open id(const char* number) { return config::Open{config::Node::scalar(number)}; }
};

// What it means.
struct EuroBertShape : EncoderShape {
  std::int64_t kv_heads = 0;
  nn::RopeConfig rope;
};
EuroBertShape resolve(const EuroBertConfig& config, const HeadRequest& head);  // throws Error(config)

}  // namespace hone::models
