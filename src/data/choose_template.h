// Another chat template for a tokenizer: data.chat_template.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/text.h"

namespace hone::data {

// The tokenizer with a chat template instead of its own, in its files too: so it is exported with the model. chosen:
// the name of one of the tokenizer's own templates or of a built-in one, a file, or the template itself (a text with {{
// or {%); "" leaves the tokenizer as it is. Throws Error(config) that begins with `option`.
std::shared_ptr<const Tokenizer> with_chat_template(std::shared_ptr<const Tokenizer> tokenizer,
                                                    const std::string& chosen, const std::string& option);

// The special token with which the tokenizer's chat template ends a turn of the assistant, if there is one. A template
// that cannot be read is an error where a conversation needs it, and has none here.
std::optional<std::int32_t> turn_end(const Tokenizer& tokenizer);

// Which tokens end an answer: the tokenizer's end of sequence, and turn_end(). Empty: there is neither.
std::vector<std::int32_t> ends_of_answers(const Tokenizer& tokenizer);

}  // namespace hone::data
