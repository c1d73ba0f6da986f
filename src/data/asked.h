// Prompts that a model is to answer: which fields of a row they are, and what they say.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source; those that a table of texts can have.
const std::vector<std::string>& asked_fields();
const std::vector<std::string>& asked_table_fields();

// prompt, messages (or conversations) or instruction, and the answer, where records have one. By their names or as the
// columns say. Throws Error(data) that lists the row's fields and proposes columns.
Form asked_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                const Place& place);

// Whether the prompt is a conversation.
bool is_chat_asked(const nlohmann::ordered_json& value, const Form& form);

// What the row says. An answer that is no text is its JSON. Throws Error(data) for an empty prompt, and for messages
// that end with the assistant's.
AskedRecord read_asked(const nlohmann::ordered_json& value, const Form& form, const Place& place);
AskedRecord asked_text(std::string prompt, std::string answer, const Place& place);

}  // namespace hone::data
