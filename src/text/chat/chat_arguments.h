// Arguments of calls, which OpenAI's form has as JSON in a string and most templates want as an object.
#pragma once

#include <optional>
#include <string>

#include "text/chat/chat_template.h"

namespace hone::text {

// The chat with the arguments of its tool_calls as objects where they are a string that holds one: nullopt if none is.
// A string stays one where a key is in it twice or an integer does not fit 64 bits.
std::optional<Chat> with_arguments_opened(const Chat& chat);
// The same of a list of calls.
std::optional<jinja::Value> with_calls_opened(const jinja::Value& calls);

// Of a call its function, or the call itself where it is one.
const jinja::Value& function_of(const jinja::Value& call);

// Whether arguments that are objects stand in the text as Python prints them, and not as JSON: by a template that wants
// a string.
bool are_printed(const Chat& chat, const std::string& text);

}  // namespace hone::text
