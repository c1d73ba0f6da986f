// Answers in the form of OpenAI's API.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generate/engine.h"
#include "serve/refused.h"
#include "serve/request.h"

namespace hone::serve {

// A token of an answer or of its prompt, where its probability was asked for.
struct ToldToken {
  std::int32_t id = 0;
  bool has_log_probs = false;  // the first token of a prompt has none
  generate::TokenLogProbs log_probs = {};
  std::size_t offset = 0;  // where its text begins in the whole one, in characters
};

// What all replies to a request have.
struct ReplyHead {
  std::string id, model;
  std::int64_t created = 0;  // seconds since 1970
  bool is_chat = false;
};

struct ChoiceText {
  std::int64_t index = 0;
  std::string text;
  std::string finish_reason;      // "": it goes on
  std::vector<ToldToken> tokens;  // where probabilities were asked for
  bool has_tool_calls = false;    // are to be looked for in the text
  bool is_named_call = false;     // the request named the tool that is called
  bool is_held = false;           // to a form of calls
  bool begins_thinking = false;   // the text goes on with what the prompt began to think
};

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt's, those that were not read again
};

nlohmann::ordered_json json_of(const ChoiceText& choice, const Tokenizer& tokenizer, const ReplyHead& head);
// A part of a stream; `first`: of a chat, the one that says whose turn it is.
nlohmann::ordered_json part_of(const ChoiceText& choice, const Tokenizer& tokenizer, const ReplyHead& head, bool first);
// Around choices, of a whole answer or of a part.
nlohmann::ordered_json reply_of(const ReplyHead& head, nlohmann::ordered_json choices, const Usage* usage,
                                bool is_part);
nlohmann::ordered_json error_of(const Refused& refused);
nlohmann::ordered_json models_of(const std::string& name, std::int64_t max_length, std::int64_t created);

// A token as it stands behind others: decoders take the blank away from a text's first one.
std::string token_text(const Tokenizer& tokenizer, std::int32_t id);

// As text that is UTF-8 whatever is in it.
std::string dumped(const nlohmann::ordered_json& json);

}  // namespace hone::serve
