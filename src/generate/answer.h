// The text of one answer while it grows: decodes, looks for stop strings, and hands out what can no longer change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/generate.h"
#include "text/tokenizer/prompted_decoder.h"

namespace hone::generate {

// Error(config): a stop string has a special token and other text. Special tokens are no part of an answer's text, so
// that one of them is a stop only alone.
void check_stop_strings(const Tokenizer& tokenizer, const std::vector<std::string>& stop);

class Answer {
 public:
  // prompt: what the answer continues; it decides for instance whether the answer begins with a space.
  Answer(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt, const std::vector<std::string>& stop)
      : tokenizer_(tokenizer), decoder_(tokenizer, prompt), stop_(stop) {}

  // Takes the next token; returns the text that became final. Afterwards stopped() says whether a stop string came.
  std::string push(std::int32_t id);
  // The rest, when no more tokens come.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& text() const { return text_; }  // without the stop string

 private:
  bool is_stop(std::int32_t id) const;
  std::string add(const std::string& more);
  bool cut_at_stop();
  std::size_t held_back() const;
  std::string release(std::size_t end);

  const Tokenizer& tokenizer_;
  text::PromptedDecoder decoder_;
  const std::vector<std::string>& stop_;
  std::string text_;
  std::size_t released_ = 0;
  bool stopped_ = false;
};

}  // namespace hone::generate
