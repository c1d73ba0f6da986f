// Nothing of a conversation is lost on the way through a template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/chat/chat_template.h"

namespace hone::text {

// A part {"type": "image"} with this, too, stands for a picture that is there; templates are given it without.
inline constexpr std::string_view kPlacedPicture = "placed picture";

// The conversation as this template takes it. Arguments of calls that are JSON of an object in a string are opened
// (chat_arguments.h), but for templates that fail with the object and take the string. Contents that are lists of parts
// are joined for templates that do not write each of their texts as it is; {"type": "text"} parts have their text as
// `text` or `value`; those of pictures (kPlacedPicture) are never joined. Throws Error(data) for other parts.
Chat chat_for(const ChatTemplate& chat_template, const Conversation& conversation, const std::string& where);

// Throws Error(data) that names a variable of the conversation which the template does not read, and those that it
// does.
void check_variables(const ChatTemplate& chat_template, const Chat& chat, const std::string& where);

// The same; and an error that names the first text which the template did not write (contents, tool calls, tools,
// documents), or a message without content of which it writes nothing. Thinking may be left out by templates that know
// of it, also between <think> and </think> in a content.
void check_printed(const ChatTemplate& chat_template, const Chat& chat, const jinja::Template::Rendered& rendered,
                   const std::string& where);

// What a model reads that is to answer the conversation: the template's text up to where the assistant begins, checked.
// now: as ChatTemplate::Options. begins_answer: else the text ends with the last message.
std::string prompt_text(const ChatTemplate& chat_template, const Conversation& conversation, const std::string& where,
                        std::int64_t now, bool begins_answer = true);

}  // namespace hone::text
