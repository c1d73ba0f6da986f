// Tokens that end an answer.
#include "generate/ends.h"

#include <algorithm>

#include "hone/error.h"
#include "text/chat/chat_template.h"

namespace hone::generate {

std::vector<std::int32_t> ends_of_answers(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ends;
  if (tokenizer.eos_id) ends.push_back(*tokenizer.eos_id);
  try {
    const auto found = text::ChatTemplate::of(tokenizer);
    const auto turn = found ? found->turn_end(tokenizer) : std::nullopt;
    if (turn && std::find(ends.begin(), ends.end(), *turn) == ends.end()) ends.push_back(*turn);
  } catch (const Error&) {  // said where conversations are read
  }
  return ends;
}

}  // namespace hone::generate
