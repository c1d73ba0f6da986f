// Prompts with answers to choose from.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source; those that a table of texts can have, to know its header by.
const std::vector<std::string>& choice_fields();
const std::vector<std::string>& choice_table_fields();

// choices and answer, and the prompt: prompt, messages (or conversations) or instruction. By their names or as the
// columns say. Throws Error(data) that lists the row's fields and proposes columns.
Form choice_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place);

// choices: a list of texts, or {"text": [...], "label": [...]}. answer: its number, counted from 0, also as text; one
// of the labels; one of the texts; or, where there are no labels, a letter, A for the first. Throws Error(data).
ChoiceRecord read_choice(const nlohmann::ordered_json& value, const Form& form, const Place& place);

}  // namespace hone::data
