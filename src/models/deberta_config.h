// What config.json of DeBERTa v2 and v3 may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/op_options.h"
#include "models/encoder_keys.h"

namespace hone::models {

struct OfDeberta : UsualOfEncoders {
  static constexpr const char *kType = "deberta-v2", *kOfType = "deberta-v2, as of version 3, too.";
  static constexpr const char* kOfPositions =
      "Longest text the model is meant for; with position_biased_input no document may be longer.";
  static constexpr std::int64_t kVocab = 128100, kHidden = 1536, kLayers = 24, kHeads = 24, kInner = 6144;
  static constexpr double kEps = 1e-7;
};

struct DebertaConfig : EncoderKeys<OfDeberta> {
  using Base = EncoderKeys<OfDeberta>;
  std::string pooler_hidden_act = "gelu", norm_rel_ebd = "none", conv_act = "tanh";
  std::int64_t type_vocab_size = 0, max_relative_positions = -1, position_buckets = -1, conv_kernel_size = 0,
               conv_groups = 1;
  bool relative_attention = false, position_biased_input = true, share_att_key = false, legacy = true;
  config::Open pos_att_type;
  double pooler_dropout = 0;
  std::optional<double> cls_dropout;
  std::optional<std::int64_t> pooler_hidden_size, attention_head_size, embedding_size;

  static constexpr auto own_fields() {
    using C = DebertaConfig;
    constexpr config::Range share{.low = 0, .high = 0.999};
    constexpr config::Range some{.low = 0, .high = 2147483647}, any{.low = -2147483647, .high = 2147483647};
    return std::tuple{
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
        field("pooler_hidden_act", &C::pooler_hidden_act, "Activation in front of a classifier of texts."),
        field("pooler_hidden_size", &C::pooler_hidden_size, "Must be hidden_size."),
        field("pooler_dropout", &C::pooler_dropout, "Share that training drops of what the pooler reads.", share),
        field("cls_dropout", &C::cls_dropout,
              "Share that training drops before a classifier of texts; default: hidden_dropout_prob.", share),
        field("attention_head_size", &C::attention_head_size, "Must be hidden_size / num_attention_heads."),
        field("embedding_size", &C::embedding_size, "Must be hidden_size."),
        field("legacy", &C::legacy, "Which form a head for masked tokens has: cls.predictions, or lm_predictions.")};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), own_fields()); }
  void validate(Problems& problems) const;
};

// What it means.
struct DebertaShape : EncoderShape {
  std::int64_t span = 0;  // distances -span ... span - 1 are told apart, buckets of them if there are
  std::int64_t max_distance = 0, kinds = 0;  // kinds: of scores beside those of contents
  bool c2p = false, p2c = false, norms_distances = false;
  bool joined = false;  // queries, keys and values of a head come of one product, as in the first version
  MaybeActivation pooler_activation, conv_activation;
};
DebertaShape resolve(const DebertaConfig& config, const HeadRequest& head);  // throws Error(config)

}  // namespace hone::models
