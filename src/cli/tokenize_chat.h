// hone tokenize --chat: conversations as tokens, with what is learnt of them.
#pragma once

#include <optional>
#include <string>

#include "hone/data.h"

namespace hone::cli {

struct ChatPrinting {
  std::string source;  // begins messages about the input
  std::optional<Loss> loss;
  std::string variables;  // of the template, a JSON object, for conversations that do not say otherwise; "" = none
  bool json = false, rendered = false;
};
// input: a JSON list of messages, or one record a line. On a terminal the text in colour, what is learnt in green; else
// a line per token: its id, "learnt" or "-", its text. rendered: the text that the template makes instead.
void print_chats(const Tokenizer& tokenizer, const std::string& input, const ChatPrinting& how);

}  // namespace hone::cli
