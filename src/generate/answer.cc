// A stop string may come in pieces, so the end of the text that could begin one is held back until it is decided.
#include "generate/answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::generate {

void check_stop_strings(const Tokenizer& tokenizer, const std::vector<std::string>& stop) {
  for (const std::string& text : stop)
    for (const std::int32_t id : during("reading a stop string", [&] { return tokenizer.encode(text, false).ids; })) {
      const std::string token = tokenizer.is_special(id) ? tokenizer.token_of(id).value_or("") : "";
      if (token.empty() || token == text || text.find(token) == std::string::npos) continue;
      throw Error(ErrorKind::config,
                  fmt::format("stop: got {}, expected the special token {} alone, or text without it",
                              hone::quoted(text), hone::quoted(token)))
          .hint("special tokens are no part of an answer's text");
    }
}

bool Answer::is_stop(std::int32_t id) const {
  if (stop_.empty() || !tokenizer_.is_special(id)) return false;
  const std::optional<std::string> token = tokenizer_.token_of(id);
  return token && std::find(stop_.begin(), stop_.end(), *token) != stop_.end();
}

std::string Answer::release(std::size_t end) {
  if (end <= released_) return "";
  const std::string out = text_.substr(released_, end - released_);
  released_ = end;
  return out;
}

// Length of the longest end of the text that begins a stop string.
std::size_t Answer::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stop_)
    for (std::size_t n = std::min(stop.size(), text_.size()); n > longest; --n)
      if (text_.compare(text_.size() - n, n, stop, 0, n) == 0) longest = n;
  return longest;
}

// Ends the text before the first stop string in what is not handed out yet.
bool Answer::cut_at_stop() {
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stop_)
    if (!stop.empty()) cut = std::min(cut, text_.find(stop, released_));
  if (cut == std::string::npos) return false;
  text_.resize(cut);
  return stopped_ = true;
}

std::string Answer::add(const std::string& more) {
  if (stopped_) return "";
  text_ += more;
  return cut_at_stop() ? release(text_.size()) : release(text_.size() - held_back());
}

std::string Answer::push(std::int32_t id) {
  if (is_stop(id)) {
    std::string rest = finish();
    stopped_ = true;
    return rest;
  }
  std::string out = add(decoder_.push(id));
  if (stopped_ || stop_.empty()) return out;
  // The decoder may still hold the token back, because the next one could change its text; a stop string in it counts
  // now.
  const std::size_t final_size = text_.size();
  text_ += text::PromptedDecoder(decoder_).finish();
  if (cut_at_stop()) return out + release(text_.size());
  text_.resize(final_size);
  return out;
}

std::string Answer::finish() {
  std::string out = stopped_ ? "" : add(decoder_.finish());
  return out + release(text_.size());
}

}  // namespace hone::generate
