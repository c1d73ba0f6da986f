// Decoding a token alone would drop what a decoder drops at the start of a text, such as the blank of "▁2".
#include "cli/shown_token.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "text/unicode/unicode.h"

namespace hone::cli {
namespace {

constexpr std::size_t kLongest = 1000;

// The bytes that a token of a byte-level vocabulary stands for; nullopt: it has a character of another alphabet.
std::optional<std::string> spelled_bytes(const std::string& token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const int byte = text::byte_of_character(text::next_code_point(token, at));
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

std::string shown_token(const Tokenizer& tokenizer, std::int32_t id) {
  const std::optional<std::string> token = tokenizer.token_of(id);
  if (!token) return fmt::format("#{}", id);
  const std::optional<std::string> bytes = spelled_bytes(*token);
  const bool spells = bytes && text::lossy_utf8(*bytes) == tokenizer.decode({id}, false);
  return escape_for_terminal(spells ? *bytes : *token, kLongest);
}

}  // namespace hone::cli
