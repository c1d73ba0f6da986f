// What every tokenizer can do with encode() alone.
#include <algorithm>

#include "hone/text.h"
#include "text/tokenizer/parallel.h"
#include "text/unicode/unicode.h"

namespace hone {

std::vector<Encoding> Tokenizer::encode_batch(std::span<const std::string_view> texts, bool special,
                                              int threads) const {
  std::vector<Encoding> out(texts.size());
  text::in_parallel(texts.size(), threads, [&](std::size_t i) { out[i] = encode(texts[i], special); });
  return out;
}

std::vector<FullEncoding> Tokenizer::encode_full(std::span<const TextPair>, bool, int) const {
  throw Error(ErrorKind::usage, "this tokenizer has ids and offsets only, no pairs, masks, truncation and padding");
}

FittedEncoding Tokenizer::encode_fitting(const TextPair&, std::size_t, bool) const {
  throw Error(ErrorKind::config, "this tokenizer has ids and offsets only, and puts no texts together");
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> in_characters(
    std::string_view text, std::span<const std::pair<std::uint32_t, std::uint32_t>> offsets) {
  std::vector<std::uint32_t> counts(text.size() + 1);  // characters that begin before each byte
  for (std::size_t i = 0; i < text.size(); ++i) counts[i + 1] = counts[i] + !text::is_continuation(text[i]);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
  out.reserve(offsets.size());
  const auto count = [&](std::uint32_t at) { return counts[std::min<std::size_t>(at, text.size())]; };
  for (const auto& [begin, end] : offsets) out.emplace_back(count(begin), count(end));
  return out;
}

}  // namespace hone
