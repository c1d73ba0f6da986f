// The conversation that a request asks to go on with.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/fields.h"
#include "serve/served.h"

namespace hone::serve {

// What a chat template is given of it: {messages, documents, chat_template_kwargs}; tools are yet to come. Throws
// Refused.
nlohmann::ordered_json read_messages(Fields& fields, const Served& served);
// Its text for the model, with its tokens and pictures. Throws Refused.
struct ChatPrompt {
  std::string text;
  std::vector<std::int32_t> ids;
  std::vector<DocPicture> pictures;
};
ChatPrompt chat_prompt(const nlohmann::ordered_json& row, const Served& served);
// Fields that are refused unless they say what is the case here anyway.
void read_chat_end(Fields& fields);

}  // namespace hone::serve
