// A token's bytes are found by decoding it, and where that shows half a character, by how the vocabulary spells bytes:
// as <0xE2>, or in the alphabet of byte-level tokenizers.
#include "text/form/token_texts.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

bool is_damaged(const std::string& text) { return text.find(kReplacementChar) != std::string::npos; }

// "" where it is not spelled so.
std::string spelled_bytes(const std::string& token, const std::string& alone) {
  std::string bytes;
  if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>') {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; };
    return {static_cast<char>(digit(token[3]) * 16 + digit(token[4]))};
  }
  for (std::size_t at = 0; at < token.size();) {
    const int byte = byte_of_character(next_code_point(token, at));
    if (byte < 0) return is_damaged(token) ? alone : "";
    bytes += static_cast<char>(byte);
  }
  if (lossy_utf8(bytes) == alone) return bytes;
  return is_damaged(token) ? alone : "";
}

// Decoders that look at neighbours, as those of words' ends do, are found by some pairs.
void check_pairs(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  constexpr std::size_t kPairs = 300;
  std::vector<std::int32_t> whole;
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty() && is_utf8(texts[id])) whole.push_back(static_cast<std::int32_t>(id));
  bool same = tokenizer.decodes_in_parts();
  for (std::size_t i = 0; i < kPairs && same && !whole.empty(); ++i) {
    const std::int32_t a = whole[i * 7919 % whole.size()], b = whole[i * 104729 % whole.size()];
    same = tokenizer.decode({a, b}) == tokenizer.decode({a}) + texts[static_cast<std::size_t>(b)];
  }
  if (!same)
    throw Error(ErrorKind::config, "form: the tokenizer's tokens do not read alone as they do in a text; expected a "
                                   "decoder that changes none by what stands beside it")
        .hint("clean_up_tokenization_spaces: true in tokenizer_config.json takes out blanks before punctuation");
}

}  // namespace

std::string bytes_of_token(const Tokenizer& tokenizer, std::int32_t id, bool first) {
  const std::optional<std::string> token = tokenizer.token_of(id);
  if (!token || tokenizer.is_special(id)) return "";
  const std::string alone = tokenizer.decode({id}, /*skip_special=*/false);
  if (is_damaged(alone)) return spelled_bytes(*token, alone);
  if (first) return alone;
  const std::string twice = tokenizer.decode({id, id}, /*skip_special=*/false);
  return twice.starts_with(alone) ? twice.substr(alone.size()) : alone;
}

std::vector<std::string> token_bytes(const Tokenizer& tokenizer, std::int64_t count, bool first) {
  std::vector<std::string> texts(static_cast<std::size_t>(count));
  const std::int64_t known = std::min(count, tokenizer.vocab_size());
  for (std::int64_t id = 0; id < known; ++id)
    texts[static_cast<std::size_t>(id)] = bytes_of_token(tokenizer, static_cast<std::int32_t>(id), first);
  return texts;
}

TextTrie::TextTrie(const std::vector<std::string>& texts) {
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty() && texts[id].size() < UINT16_MAX) ids.push_back(static_cast<std::int32_t>(id));
  const auto text = [&](std::int32_t id) -> const std::string& { return texts[static_cast<std::size_t>(id)]; };
  std::ranges::stable_sort(ids, [&](std::int32_t a, std::int32_t b) {
    return std::ranges::lexicographical_compare(text(a), text(b), [](char x, char y) {
      return static_cast<unsigned char>(x) < static_cast<unsigned char>(y);
    });
  });
  std::vector<std::uint32_t> open;  // the nodes on the way to the last text
  const auto close = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes[open.back()].behind = static_cast<std::uint32_t>(nodes.size());
  };
  const std::string none;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string &now = text(ids[i]), &before = i == 0 ? none : text(ids[i - 1]);
    const auto shared = static_cast<std::size_t>(std::ranges::mismatch(now, before).in1 - now.begin());
    close(shared);
    for (std::size_t at = shared; at < now.size(); ++at) {
      open.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back({0, static_cast<std::uint32_t>(i), 0, static_cast<std::uint16_t>(at + 1),
                       static_cast<std::uint8_t>(now[at])});
    }
    ++nodes[open.back()].tokens;
  }
  close(0);
}

TokenTexts::TokenTexts(const Tokenizer& tokenizer, std::int64_t vocab_size)
    : texts_(token_bytes(tokenizer, vocab_size, false)), trie_(texts_) {
  check_pairs(tokenizer, texts_);
  first_ = token_bytes(tokenizer, vocab_size, true);
  if (first_ == texts_)
    first_.clear();
  else
    first_trie_ = std::make_unique<const TextTrie>(first_);
  find_usable();
}

const std::string& TokenTexts::text(std::int32_t id, bool first) const {
  return (first && first_trie_ ? first_ : texts_)[static_cast<std::size_t>(id)];
}

// Where bytes have no tokens, characters beyond ASCII are not counted on: they are written where tokens have them.
void TokenTexts::find_usable() {
  std::array<bool, 256> single = {};
  for (const std::string& text : texts_)
    if (text.size() == 1) single[static_cast<std::uint8_t>(text[0])] = true;
  const bool all = std::all_of(single.begin() + 0x80, single.begin() + 0xF5, [](bool one) { return one; }) ||
                   std::ranges::all_of(single, [](bool one) { return one; });
  for (std::size_t b = 0; b < 256; ++b) usable_[b] = b < 0x80 ? single[b] : b < 0xC0 || all;
}

}  // namespace hone::text
