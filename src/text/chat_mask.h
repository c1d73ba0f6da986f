// A conversation as tokens, with those that are learnt: by position, never by id.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hone/text.h"
#include "text/chat_template.h"

namespace hone::text {

// What is learnt of a conversation: all of it, the assistant's turns, the last of them, or those behind the prompt.
enum class Learnt { all, assistant, last, completion };

using Spans = std::vector<std::pair<std::size_t, std::size_t>>;  // bytes [first, second) of a text, in order

// For each token whether it is in a span: from the token that holds a span's first character to the last one that holds
// a part of its last character, as transformers' return_assistant_tokens_mask (which stops at the first token of a last
// character that several tokens share). Throws Error(data) when no token holds an end of a span.
std::vector<bool> mask_of(const Encoding& encoding, std::string_view text, const Spans& spans,
                          const std::string& where);

struct ChatTokens {
  Tokens tokens;
  bool ends_turns = true;  // every learnt turn ends with a special token, so that the model learns to stop
};

// Renders and tokenises a conversation without further special tokens. Where the template has {% generation %} blocks,
// they say what the assistant wrote. Else a turn reaches from the generation prompt before it to its own end, both
// found by rendering the messages up to there and compared with the whole text; the tokens before a turn must be those
// that the model would see. Throws Error(data) that begins with `where` when that cannot be told for certain.
ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       Learnt learnt, const std::string& where);

// The same for chosen messages of the assistant's: one for each message whether it is learnt.
ChatTokens chat_tokens(const ChatTemplate& chat_template, const Tokenizer& tokenizer, const Conversation& conversation,
                       const std::vector<bool>& chosen, const std::string& where);
// The messages that `learnt` (not all) chooses.
std::vector<bool> chosen_messages(const Conversation& conversation, Learnt learnt, const std::string& where);

// The date that templates get in training data (strftime_now): always the same, so that runs can be repeated.
inline constexpr std::int64_t kTrainingDate = 1'721'952'000;  // 2024-07-26 00:00 UTC

}  // namespace hone::text
