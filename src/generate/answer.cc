// A stop string may come in pieces, so the end of the text that could begin one is held back until it is decided.
#include "generate/answer.h"

#include <algorithm>

namespace hone::generate {

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
