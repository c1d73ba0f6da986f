// Arguments of calls, which OpenAI's form has as JSON in a string and most templates want as an object.
#pragma once

#include <optional>

#include "text/chat/chat_template.h"

namespace hone::text {

// The chat with the arguments of its tool_calls as objects where they are a string that holds one: nullopt if none is.
// A string stays one where a key is in it twice or an integer does not fit 64 bits.
std::optional<Chat> with_arguments_opened(const Chat& chat);

}  // namespace hone::text
