// Answers that are judged one by one: which fields of a row they are, and what a judgement may be.
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
const std::vector<std::string>& judged_fields();
const std::vector<std::string>& judged_table_fields();

// label, and what it judges: prompt and completion, instruction and output, or messages (or conversations) of which the
// last is the answer. Rows without a label may be preferences (preference_form). By their names or as the columns say.
// Throws Error(data) that lists the row's fields and proposes columns.
Form judged_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place);

// true or false, 1 or 0, also as text. Throws Error(data).
bool judgement_of(const nlohmann::ordered_json& value, const std::string& field, const Place& place);
bool judgement_of(const std::string& cell, const std::string& field, const Place& place);  // of a table

// How many messages are the prompt of the answer that is judged: `prompt`, or all but the last where that is -1. Throws
// Error(data) for an answer that is empty, or whose first message is not the assistant's.
std::int64_t prompt_of_judged(const nlohmann::ordered_json& messages, std::int64_t prompt, const Place& place);
// Of texts. Throws Error(data) for an empty answer.
JudgedRecord judged(PromptRecord answer, bool desirable, const Place& place);

}  // namespace hone::data
