// What config.json of BERTs with rotary positions may say: Nomic BERT, GTE and Jina Embeddings v3.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "hone/config.h"
#include "hone/model.h"
#include "models/encoder_keys.h"
#include "nn/rope.h"

namespace hone::models {

struct OfNomic : UsualOfEncoders {
  static constexpr const char *kType = "nomic_bert", *kOfType = "nomic_bert.", *kAct = "silu";
  static constexpr const char* kOfPositions = "Longest text the model is meant for.";
  static constexpr std::int64_t kVocab = 30528, kPositions = 2048, kTypes = 2, kFewestTypes = 1;
  static constexpr double kDropout = 0, kAttentionDropout = 0, kTheta = 1000;
};
struct OfGte : UsualOfEncoders {
  static constexpr const char *kType = "gte", *kOfType = "gte.", *kPad = "1";
  static constexpr const char* kOfPositions = "Longest text the model is meant for.";
  static constexpr std::int64_t kVocab = 250048, kPositions = 8192, kTypes = 1, kFewestTypes = 0;
  static constexpr double kAttentionDropout = 0, kTheta = 160000;
};
struct OfJina : UsualOfEncoders {
  static constexpr const char *kType = "jina_embeddings_v3", *kOfType = "jina_embeddings_v3.", *kBos = "0",
                              *kEos = "2", *kPad = "1";
  static constexpr const char* kOfPositions = "Longest text the model is meant for.";
  static constexpr std::int64_t kVocab = 250002, kHidden = 1024, kLayers = 24, kHeads = 16, kInner = 4096,
                                kPositions = 8194, kTypes = 1, kFewestTypes = 1;
  static constexpr double kEps = 1e-5, kAttentionDropout = 0.1, kTheta = 20000;
};

template <class Usual>
struct RotaryKeys : EncoderKeys<Usual> {
  using Base = EncoderKeys<Usual>;
  RotaryKeys() { this->attention_probs_dropout_prob = Usual::kAttentionDropout; }
  std::int64_t type_vocab_size = Usual::kTypes;
  std::optional<double> classifier_dropout, rope_theta;
  config::Open rope_parameters, rope_scaling;

  static constexpr auto rotary_fields() {
    using C = RotaryKeys;
    return std::tuple{
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              {.low = Usual::kFewestTypes, .high = 2147483647}),
        field("classifier_dropout", &C::classifier_dropout,
              "Share that training drops before the classifier; default: hidden_dropout_prob.",
              {.low = 0, .high = 0.999}),
        field("rope_parameters", &C::rope_parameters, "Rotary position embedding, transformers 5's form."),
        field("rope_scaling", &C::rope_scaling,
              "Rotary position embedding, transformers 4's form; wins over rope_parameters."),
        field("rope_theta", &C::rope_theta, "Base of the rotary frequencies where rope_parameters says none.",
              {.low = 1, .high = 1e15})};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), rotary_fields()); }
};

struct NomicConfig : RotaryKeys<OfNomic> {
  using Base = RotaryKeys<OfNomic>;
  std::optional<std::int64_t> head_dim;
  static constexpr auto fields() {
    return std::tuple_cat(Base::fields(),
                          std::tuple{field("head_dim", &NomicConfig::head_dim,
                                           "Size of a head; default: hidden_size / num_attention_heads.",
                                           {.low = 2, .high = 65536})});
  }
  void validate(Problems& problems) const;
};
struct GteConfig : RotaryKeys<OfGte> {
  using Base = RotaryKeys<OfGte>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};
struct JinaConfig : RotaryKeys<OfJina> {
  using Base = RotaryKeys<OfJina>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};

// What is between an MLP's products: two of them, a gate and what it lets through; or one.
enum class RotaryMlpForm { gated, gated_and_dropped, plain };

// What it means.
struct RotaryShape : EncoderShape {
  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, types = 0, max_positions = 0;
  double dropout = 0, attention_dropout = 0, eps = 0, std = 0;
  bool attention_bias = false;
  RotaryMlpForm mlp = RotaryMlpForm::plain;
  nn::RopeConfig rope;
};
// With the head that is asked for. Throws Error(config).
RotaryShape resolve(const NomicConfig& config, const HeadRequest& head);
RotaryShape resolve(const GteConfig& config, const HeadRequest& head);
RotaryShape resolve(const JinaConfig& config, const HeadRequest& head);

}  // namespace hone::models
