// A tokenizer for texts in which a token stands for a picture that the model reads between others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/pictures.h"
#include "hone/text.h"

namespace hone::data {

// Encodes texts with "\n\n", PictureInput::before, one PictureInput::token, PictureInput::after and "\n\n" in the place
// of each PictureInput::before, as transformers' processor writes them out before it tokenises; offsets are those of
// the text as it was given. All else is the other tokenizer's, which must outlive it.
class FramedPlaces final : public Tokenizer {
 public:
  // REQUIRES: PictureWords::framed. Throws Error(config): the tokenizer has not all three.
  FramedPlaces(const Tokenizer& tokenizer, const PictureInput& input);

  Encoding encode(std::string_view text, bool special = true) const override;
  Encoding encode_untrimmed(std::string_view text) const;  // as text::JsonTokenizer's, where it is one
  std::string decode(const std::vector<std::int32_t>& ids, bool skip_special) const override {
    return base_.decode(ids, skip_special);
  }
  std::int64_t vocab_size() const override { return base_.vocab_size(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override { return base_.id_of(token); }
  std::optional<std::string> token_of(std::int32_t id) const override { return base_.token_of(id); }
  bool is_special(std::int32_t id) const override { return base_.is_special(id); }
  bool decodes_in_parts() const override { return base_.decodes_in_parts(); }
  std::vector<FullEncoding> encode_full(std::span<const TextPair> texts, bool special, int threads) const override {
    return base_.encode_full(texts, special, threads);
  }
  FittedEncoding encode_fitting(const TextPair& texts, std::size_t most, bool from_left) const override {
    return base_.encode_fitting(texts, most, from_left);
  }

 private:
  template <class Encode>
  Encoding encode_with(std::string_view text, const Encode& encode) const;
  const Tokenizer& base_;
  std::string place_, written_;
};

// With the blanks that a token holds: the post-processor of some tokenizers takes them off the offsets.
Encoding encode_untrimmed(const Tokenizer& tokenizer, std::string_view text);

// What encodes texts with a model's pictures, where it is not the tokenizer itself; null: it is.
std::unique_ptr<const Tokenizer> tokenizer_of_places(const Tokenizer& tokenizer, const PictureReader* reader);

}  // namespace hone::data
