// Streaming decode over a short window of ids.
//
// What a decoder does at the very start of a text (dropping a blank) must not happen in its middle: the window begins
// with ids whose text is out already. What may still change is held back: half a character, which shows as U+FFFD at
// the end, and a run of <0x..> tokens, which becomes text only as a whole.
#include <utility>

#include "hone/text.h"
#include "text/unicode/unicode.h"

namespace hone {
namespace {

constexpr std::size_t kLongWindow = 32, kShortWindow = 8;

bool is_byte_token(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
}

}  // namespace

// Hands out text[done_, end).
std::string StreamDecoder::take(const std::string& text, std::size_t end) {
  if (end <= done_) return "";
  std::string out = text.substr(done_, end - done_);
  done_ = end;
  return out;
}

std::string StreamDecoder::push(std::int32_t id) {
  const std::optional<std::string> token = tokenizer_.token_of(id);
  if (!token || tokenizer_.is_special(id)) return "";
  ids_.push_back(id);
  if (!tokenizer_.decodes_in_parts() || is_byte_token(*token)) return "";
  const std::string text = tokenizer_.decode(ids_);
  if (text.ends_with(text::kReplacementChar)) {
    const std::string out = take(text, text.size() - text::kReplacementChar.size());
    if (ids_.size() < kLongWindow) return out;
    // Damaged text goes on and on: begin anew at a place where both sides decode on their own to the same.
    const auto middle = ids_.end() - kShortWindow;
    const std::string before = tokenizer_.decode({ids_.begin(), middle});
    if (before.size() > done_ || before + tokenizer_.decode({middle, ids_.end()}) != text) return out;
    ids_.erase(ids_.begin(), middle);
    done_ -= before.size();
    waiting_ = 0;
    return out;
  }
  std::string out = take(text, text.size());
  const std::vector<std::int32_t> latest(ids_.begin() + static_cast<std::ptrdiff_t>(waiting_), ids_.end());
  const std::string context = tokenizer_.decode(latest);
  if (context.empty()) return out;
  ids_ = latest;
  waiting_ = ids_.size();
  done_ = context.size();
  return out;
}

std::string StreamDecoder::finish() {
  const std::string text = tokenizer_.decode(ids_);
  std::string rest = take(text, text.size());
  ids_.clear();
  waiting_ = done_ = 0;
  return rest;
}

}  // namespace hone
