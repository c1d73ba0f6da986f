// The conversation that a request asks to go on with.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/fields.h"
#include "serve/served.h"

namespace hone::serve {

// What a chat template is given of it: {messages, documents, chat_template_kwargs}; tools are yet to come. is_whole:
// it may end with a turn of the assistant. Throws Refused.
nlohmann::ordered_json read_messages(Fields& fields, const Served& served, bool is_whole = false);
// Its text for the model, with its tokens and pictures; is_whole: with no answer begun. Throws Refused.
struct ChatPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::vector<DocPicture> pictures;
};
ChatPrompt chat_prompt(const nlohmann::ordered_json& row, const Served& served, bool is_whole = false);
// Fields that are refused unless they say what is the case here anyway.
void read_chat_end(Fields& fields);
void read_last_message(Fields& fields);  // those of a chat that need not be answered

}  // namespace hone::serve
