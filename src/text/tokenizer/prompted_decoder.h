// Streaming decode of what follows a prompt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/text.h"

namespace hone::text {

// Hands out text as StreamDecoder does. All pieces together are decode() of all ids without decode() of the prompt,
// where the one begins with the other; a character of which the prompt has a part is handed out whole. The tokenizer
// must outlive it.
class PromptedDecoder {
 public:
  PromptedDecoder(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt);
  std::string push(std::int32_t id) { return without_prompt(decoder_.push(id)); }
  std::string finish() { return without_prompt(decoder_.finish()); }

 private:
  std::string without_prompt(std::string text);
  StreamDecoder decoder_;
  std::string held_;  // the end of the prompt's text: the decoder has not handed it out yet
};

}  // namespace hone::text
