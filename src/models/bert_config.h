// What config.json of BERT and its nearest relatives may say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "hone/config.h"
#include "hone/model.h"
#include "models/encoder_keys.h"

namespace hone::models {

// The keys of BERT, RoBERTa and ELECTRA.
template <class Usual>
struct BertKeys : EncoderKeys<Usual> {
  using Base = EncoderKeys<Usual>;
  std::int64_t type_vocab_size = 2;
  std::optional<double> classifier_dropout;
  std::optional<std::string> position_embedding_type;
  bool is_decoder = false, add_cross_attention = false;

  static constexpr auto bert_fields() {
    using C = BertKeys;
    return std::tuple{
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              {.low = 1, .high = 2147483647}),
        field("classifier_dropout", &C::classifier_dropout,
              "Share that training drops before the classifier; default: hidden_dropout_prob.",
              {.low = 0, .high = 0.999}),
        field("position_embedding_type", &C::position_embedding_type, "Must be absolute."),
        field("is_decoder", &C::is_decoder, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false.")};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), bert_fields()); }
};

struct OfBert : UsualOfEncoders {
  static constexpr const char *kType = "bert", *kOfType = "bert.";
};
struct OfRoberta : UsualOfEncoders {
  static constexpr const char *kType = "roberta", *kBos = "0", *kEos = "2", *kPad = "1";
  static constexpr std::int64_t kVocab = 50265;
  static constexpr const char *kOfType = "roberta, xlm-roberta, camembert or data2vec-text.",
                              *kOfPositions =
                                  "Positions that are learned. They begin behind pad_token_id, so that a document has "
                                  "pad_token_id + 1 tokens less.";
};

struct BertConfig : BertKeys<OfBert> {
  using Base = BertKeys<OfBert>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};
struct RobertaConfig : BertKeys<OfRoberta> {
  using Base = BertKeys<OfRoberta>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};

// Sets the keys that both have, whatever their defaults were.
template <class From, class To>
void copy_keys(const EncoderKeys<From>& from, EncoderKeys<To>& to) {
  static_cast<LabelKeys&>(to) = from;
  const auto copy = [&](const auto&... theirs) {
    std::apply([&](const auto&... own) { ((to.*own.member = from.*theirs.member), ...); },
               EncoderKeys<To>::own_fields());
  };
  std::apply(copy, EncoderKeys<From>::own_fields());
}
template <class From>
BertConfig as_bert(const BertKeys<From>& from) {
  BertConfig made;
  copy_keys(from, made);
  made.type_vocab_size = from.type_vocab_size, made.classifier_dropout = from.classifier_dropout;
  made.position_embedding_type = from.position_embedding_type;
  made.is_decoder = from.is_decoder, made.add_cross_attention = from.add_cross_attention;
  return made;
}

// What it means.
struct BertShape : EncoderShape {
  std::int64_t first_position = 0;
  std::int64_t embedding_size = 0;  // of the tables, from which a product leads to hidden_size; 0: they have that
  const char* projection = "embeddings_project";  // what that product is called
  bool always_projects = false;                   // by it, also where the tables have hidden_size
  bool norms_embeddings = true, learns_positions = true;
  bool rotates = false;         // queries and keys, by their positions
  bool rotates_neighbours = true;  // values 2i and 2i + 1 of a head, not i and i + half
  double rope_theta = 10000;
  std::int64_t task_types = 0;  // rows of a table of which all tokens have the first; 0: there is none
};
// With the head that is asked for. Throws Error(config).
BertShape resolve(const BertConfig& config, const HeadRequest& head);
BertShape resolve(const RobertaConfig& config, const HeadRequest& head);

}  // namespace hone::models
