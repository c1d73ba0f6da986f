// Texts with pictures between other tokens.
#include "data/framed_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/error.h"
#include "text/tokenizer/json_tokenizer.h"

namespace hone::data {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::int32_t id, const char* what) {
  if (auto token = tokenizer.token_of(id)) return *std::move(token);
  throw Error(ErrorKind::config, fmt::format("the tokenizer has no token {}, which {} in texts", id, what))
      .hint("the tokenizer and config.json must be of one model");
}

// Where a text's places are, and how they come to lie in the text that is written out.
class Written {
 public:
  Written(std::string_view text, std::string_view place, std::string_view written) {
    std::size_t from = 0;
    for (std::size_t at; (at = text.find(place, from)) != text.npos; from = at + place.size()) {
      all.append(text.substr(from, at - from));
      stretches_.push_back({all.size(), all.size() + written.size(), at, at + place.size()});
      all.append(written);
    }
    all.append(text.substr(from));
  }

  // In the text as it was given: what begins, or ends, within what was written for a place is the place's.
  std::uint32_t before(std::uint32_t offset, bool is_end) const {
    const auto after = std::upper_bound(stretches_.begin(), stretches_.end(), offset,
                                        [](std::uint32_t at, const Stretch& one) { return at < one.begin; });
    if (after == stretches_.begin()) return offset;
    const Stretch& one = *std::prev(after);
    const bool within = is_end ? offset > one.begin && offset < one.end : offset < one.end;
    if (within) return static_cast<std::uint32_t>(is_end ? one.place_end : one.place_begin);
    if (offset == one.begin) return static_cast<std::uint32_t>(one.place_begin);
    return static_cast<std::uint32_t>(offset - one.end + one.place_end);
  }

  std::string all;

 private:
  struct Stretch {
    std::size_t begin, end, place_begin, place_end;
  };
  std::vector<Stretch> stretches_;
};

}  // namespace

FramedPlaces::FramedPlaces(const Tokenizer& tokenizer, const PictureInput& input)
    : Tokenizer(tokenizer), base_(tokenizer) {
  HONE_ASSERT(input.words == PictureWords::framed);
  place_ = token_text(tokenizer, input.before, "stands before a picture");
  written_ = fmt::format("\n\n{}{}{}\n\n", place_, token_text(tokenizer, input.token, "stands for pictures"),
                         token_text(tokenizer, input.after, "stands behind a picture"));
}

template <class Encode>
Encoding FramedPlaces::encode_with(std::string_view text, const Encode& encode) const {
  if (text.find(place_) == text.npos) return encode(text);
  const Written written(text, place_, written_);
  Encoding made = encode(written.all);
  for (auto& [begin, end] : made.offsets)
    if (end > 0) begin = written.before(begin, /*is_end=*/false), end = written.before(end, /*is_end=*/true);
  return made;
}

Encoding FramedPlaces::encode(std::string_view text, bool special) const {
  return encode_with(text, [&](std::string_view one) { return base_.encode(one, special); });
}

Encoding FramedPlaces::encode_untrimmed(std::string_view text) const {
  return encode_with(text, [&](std::string_view one) { return data::encode_untrimmed(base_, one); });
}

Encoding encode_untrimmed(const Tokenizer& tokenizer, std::string_view text) {
  if (const auto* framed = dynamic_cast<const FramedPlaces*>(&tokenizer)) return framed->encode_untrimmed(text);
  const auto* json = dynamic_cast<const text::JsonTokenizer*>(&tokenizer);
  return json ? json->encode_untrimmed(text) : tokenizer.encode(text);
}

std::unique_ptr<const Tokenizer> tokenizer_of_places(const Tokenizer& tokenizer, const PictureReader* reader) {
  if (!reader || reader->input().words != PictureWords::framed) return nullptr;
  return std::make_unique<FramedPlaces>(tokenizer, reader->input());
}

}  // namespace hone::data
