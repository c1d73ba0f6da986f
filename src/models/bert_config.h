// What config.json of BERT and its relatives may say.
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

enum class BertKind { bert, roberta };  // whose keys have other defaults

template <BertKind kKind>
struct BertConfigOf : LabelKeys {
  using Base = LabelKeys;
  static constexpr bool kRoberta = kKind == BertKind::roberta;
  std::string model_type = kRoberta ? "roberta" : "bert";
  std::int64_t vocab_size = kRoberta ? 50265 : 30522, hidden_size = 768, num_hidden_layers = 12,
               num_attention_heads = 12;
  std::int64_t intermediate_size = 3072, max_position_embeddings = 512, type_vocab_size = 2;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1;
  std::optional<double> classifier_dropout;
  double initializer_range = 0.02, layer_norm_eps = 1e-12;
  std::string position_embedding_type = "absolute";
  bool is_decoder = false, add_cross_attention = false, tie_word_embeddings = true;
  config::Open bos_token_id = of_roberta("0"), eos_token_id = of_roberta("2");
  config::Open pad_token_id{config::Node::scalar(kRoberta ? "1" : "0")};

  static constexpr auto own_fields() {
    using C = BertConfigOf;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, "bert, roberta, xlm-roberta or camembert."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("max_position_embeddings", &C::max_position_embeddings,
              "Positions that are learned: no document may be longer. RoBERTa's begin behind pad_token_id, so that a "
              "document has pad_token_id + 1 tokens less.",
              size),
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              size),
        field("hidden_act", &C::hidden_act, "Activation of the MLP: gelu, gelu_new, gelu_pytorch_tanh, relu or silu."),
        field("hidden_dropout_prob", &C::hidden_dropout_prob, "Share of hidden numbers that training drops.", share),
        field("attention_probs_dropout_prob", &C::attention_probs_dropout_prob,
              "Share of attention weights that training drops.", share),
        field("classifier_dropout", &C::classifier_dropout,
              "Share that training drops before the classifier; default: hidden_dropout_prob.", share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("position_embedding_type", &C::position_embedding_type, "Must be absolute."),
        field("is_decoder", &C::is_decoder, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const;

 private:
  static config::Open of_roberta(const char* id) {
    return kRoberta ? config::Open{config::Node::scalar(id)} : config::Open{};
  }
};
using BertConfig = BertConfigOf<BertKind::bert>;
using RobertaConfig = BertConfigOf<BertKind::roberta>;
template <>
void BertConfig::validate(Problems& problems) const;
template <>
void RobertaConfig::validate(Problems& problems) const;

// The same, whatever its defaults were.
inline BertConfig as_bert(const RobertaConfig& given) {
  BertConfig made;
  static_cast<LabelKeys&>(made) = given;
  const auto copy = [&](const auto&... to) {
    std::apply([&](const auto&... from) { ((made.*to.member = given.*from.member), ...); },
               RobertaConfig::own_fields());
  };
  std::apply(copy, BertConfig::own_fields());
  return made;
}

// What it means.
struct BertShape : EncoderHead {
  std::int64_t head_size = 0, no_gradient_id = -1, first_position = 0;
  std::int64_t embedding_size = 0;  // of the tables, from which a product leads to hidden_size; 0: they have that
  std::string classes = "Bert";  // how the names of transformers' classes begin
  ops::Activation activation = ops::Activation::gelu;
  double classifier_dropout = 0;
};
BertShape resolve(const BertConfig& config, const HeadRequest& head);  // throws Error(config)

// config.json in transformers 5's form; dtype "" = not known yet.
config::Node to_hf_config(const BertConfig& config, const BertShape& shape, const std::string& dtype);

}  // namespace hone::models
