// Keys of config.json that BERT's relatives share, and what they mean.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/encoder_head.h"
#include "nn/token_ids.h"

namespace hone::models {

// What a family takes for keys that config.json has not, and says of them in its page. A family derives from it and
// names what differs.
struct UsualOfEncoders {
  static constexpr const char *kAct = "gelu", *kBos = nullptr, *kEos = nullptr, *kPad = "0";
  static constexpr std::int64_t kVocab = 30522, kHidden = 768, kLayers = 12, kHeads = 12, kInner = 3072,
                                kPositions = 512, kFewestPositions = 1;
  static constexpr double kDropout = 0.1, kEps = 1e-12;
  static constexpr const char* kOfPositions = "Positions that are learned: no document may be longer.";
  static constexpr const char* kOfLayers = "Transformer blocks.";
  static constexpr const char* kOfAct = "Activation of the MLP, by Hugging Face's name.";
  static constexpr bool kTied = true;
  static constexpr const char* kOfTied = "Of the head for masked tokens, where it must be true.";
  static constexpr const char* kOfPad = "Padding; its row of the embedding table gets no gradient from look-ups.";
};

template <class Usual>
struct EncoderKeys : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = Usual::kType, hidden_act = Usual::kAct;
  std::int64_t vocab_size = Usual::kVocab, hidden_size = Usual::kHidden, num_hidden_layers = Usual::kLayers,
               num_attention_heads = Usual::kHeads, intermediate_size = Usual::kInner,
               max_position_embeddings = Usual::kPositions;
  double hidden_dropout_prob = Usual::kDropout, attention_probs_dropout_prob = Usual::kDropout,
         initializer_range = 0.02, layer_norm_eps = Usual::kEps;
  bool tie_word_embeddings = Usual::kTied;
  config::Open bos_token_id = id(Usual::kBos), eos_token_id = id(Usual::kEos), pad_token_id = id(Usual::kPad);

  static constexpr auto own_fields() {
    using C = EncoderKeys;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, Usual::kOfType),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, Usual::kOfLayers, {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("max_position_embeddings", &C::max_position_embeddings, Usual::kOfPositions,
              {.low = Usual::kFewestPositions, .high = 2147483647}),
        field("hidden_act", &C::hidden_act, Usual::kOfAct),
        field("hidden_dropout_prob", &C::hidden_dropout_prob, "Share of hidden numbers that training drops.", share),
        field("attention_probs_dropout_prob", &C::attention_probs_dropout_prob,
              "Share of attention weights that training drops.", share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("tie_word_embeddings", &C::tie_word_embeddings, Usual::kOfTied),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id, Usual::kOfPad)};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }

 protected:
  static config::Open id(const char* number) {
    return number ? config::Open{config::Node::scalar(number)} : config::Open{};
  }
};

using MaybeActivation = std::optional<ops::Activation>;  // nothing: tanh

// What they mean.
struct EncoderShape : EncoderHead {
  std::int64_t heads = 0, head_size = 0;
  std::int64_t no_gradient_id = -1;  // padding, of the table of words; -1: there is none
  ops::Activation activation = ops::Activation::gelu;
  // What training drops in front of a head of labels, and of one that answers questions.
  double classifier_dropout = 0, answers_dropout = 0;
};

// squares: of hidden_size, in the weights of a block beside its MLP.
template <class Usual>
void read_shape(const EncoderKeys<Usual>& c, EncoderShape& s, Problems& problems, int squares = 4) {
  problems.require(c.hidden_size % c.num_attention_heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads", c.hidden_size));
  const auto hidden = static_cast<double>(c.hidden_size), inner = static_cast<double>(c.intermediate_size);
  check_parameters(static_cast<double>(c.num_hidden_layers) * hidden * (squares * hidden + 2 * inner) +
                       static_cast<double>(c.vocab_size + c.max_position_embeddings) * hidden,
                   "hidden_size", problems);
  s.heads = c.num_attention_heads, s.head_size = c.hidden_size / c.num_attention_heads;
  s.activation = nn::read_activation(c.hidden_act, "hidden_act", problems);
  s.classifier_dropout = c.hidden_dropout_prob;
  nn::read_token_ids(c.bos_token_id.node, "bos_token_id", c.vocab_size, problems);
  nn::read_token_ids(c.eos_token_id.node, "eos_token_id", c.vocab_size, problems);
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  read_head(c, c.tie_word_embeddings, s, problems);
}

}  // namespace hone::models
