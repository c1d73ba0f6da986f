// Preference pairs: which fields of a row they are, and what they say.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source; those that a table of texts can have.
const std::vector<std::string>& preference_fields();
const std::vector<std::string>& preference_table_fields();

// chosen and rejected (or chosen_messages and rejected_messages), and the prompt: prompt, messages (or conversations),
// instruction, or none of them. By their names or as the columns say. Throws Error(data) that lists the row's fields
// and proposes columns.
Form preference_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                     const Place& place);

// Whether the pair is one of conversations.
bool is_chat_pair(const nlohmann::ordered_json& value, const Form& form);

// What the row says. Messages that both sides begin with are the prompt where none is given, as is the beginning that
// two texts share (shared_prompt.h). Throws Error(data) for a side that is empty, for equal sides and for what is not a
// pair.
PreferenceRecord read_text_pair(const nlohmann::ordered_json& value, const Form& form, const Place& place);
ChatPreferenceRecord read_chat_pair(const nlohmann::ordered_json& value, const Form& form, const Place& place);

// prompt: nothing: what both sides begin with.
PreferenceRecord text_pair(std::optional<std::string> prompt, std::string chosen, std::string rejected,
                           const Place& place);

}  // namespace hone::data
