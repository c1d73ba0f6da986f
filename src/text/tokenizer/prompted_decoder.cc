// The decoder still holds the end of a prompt back when it may change with what follows: half a character, a run of
// <0x..> tokens, or all of the text. It comes out with the first text behind the prompt, and is taken off there.
#include "text/tokenizer/prompted_decoder.h"

#include <algorithm>
#include <utility>

#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

std::size_t common_prefix(const std::string& a, const std::string& b) {
  std::size_t size = 0;
  while (size < a.size() && size < b.size() && a[size] == b[size]) ++size;
  while (size > 0 && size < b.size() && is_continuation(b[size])) --size;
  return size;
}

bool has_damage_at(const std::string& text, std::size_t at) {
  return text.compare(at, kReplacementChar.size(), kReplacementChar) == 0;
}

}  // namespace

PromptedDecoder::PromptedDecoder(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt)
    : decoder_(tokenizer) {
  for (const std::int32_t id : prompt) decoder_.push(id);
  held_ = StreamDecoder(decoder_).finish();
}

std::string PromptedDecoder::without_prompt(std::string text) {
  if (held_.empty() || text.empty()) return text;
  std::size_t begin = common_prefix(held_, text);
  if (begin == text.size()) {
    held_.erase(0, begin);
    return "";
  }
  const std::string held = std::exchange(held_, "");
  // A run of byte tokens that is damaged as a whole has one U+FFFD for each byte, also for those of the prompt.
  if (begin < held.size() && !has_damage_at(held, begin))
    for (std::size_t bytes = held.size() - begin; bytes > 0 && has_damage_at(text, begin); --bytes)
      begin += kReplacementChar.size();
  return text.substr(begin);
}

}  // namespace hone::text
