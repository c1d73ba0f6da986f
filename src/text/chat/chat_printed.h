// Nothing of a conversation is lost on the way through a template.
#pragma once

#include <string>

#include "text/chat/chat_template.h"

namespace hone::text {

// Contents that are lists of parts, for templates that take texts: their texts are joined where the template does not
// write each of them as it is. {"type": "text"} parts have their text as `text` or `value`. Throws Error(data) for
// other parts.
Chat with_texts(const ChatTemplate& chat_template, Chat chat, const std::string& where);

// Throws Error(data) that names the first text which the template did not write (contents, tool calls, tools,
// documents), or a variable that it does not mention. Thinking may be left out by templates that know of it, also
// between <think> and </think> in a content.
void check_printed(const ChatTemplate& chat_template, const Chat& chat, const jinja::Template::Rendered& rendered,
                   const std::string& where);

}  // namespace hone::text
