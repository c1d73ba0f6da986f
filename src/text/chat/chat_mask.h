// A conversation as tokens, with those that are learnt: by position, never by id.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hone/text.h"
#include "text/chat/chat_template.h"
#include "text/chat/chat_turns.h"

namespace hone::text {

// What is learnt of a conversation: all of it, the assistant's turns, the last of them, or those behind the prompt.
enum class Learnt { all, assistant, last, completion };

// For each token whether it is in a span: from the token that holds a span's first character to the last one that holds
// a part of its last character, as transformers' return_assistant_tokens_mask (which stops at the first token of a last
// character that several tokens share). Throws Error(data) when no token holds an end of a span.
std::vector<bool> mask_of(const Encoding& encoding, std::string_view text, const Spans& spans,
                          const std::string& where);

struct ChatTokens {
  Tokens tokens;
  bool ends_turns = true;  // every learnt turn ends with a special token, so that the model learns to stop
};

// Renders and tokenises a conversation without further special tokens. The turns are found by chat_turns.h; the tokens
// before a turn must be those that the model would see. White space behind a turn's last special token is not learnt.
// Throws Error(data) that begins with `where` when that cannot be told for certain, and for what the template does not
// print (chat_printed.h).
ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       Learnt learnt, const std::string& where);

// The same for chosen messages of the assistant's: one for each message whether it is learnt.
ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       const std::vector<bool>& chosen, const std::string& where);
// The messages that `learnt` (not all) chooses.
std::vector<bool> chosen_messages(const Conversation& conversation, Learnt learnt, const std::string& where);

}  // namespace hone::text
