// Which fields of a row are a prompt, and what they say: of pairs of answers, and of prompts that are to be answered.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// What finds the field that is read as a known one: by what columns say, else by its own name; "": the row has none.
// missing: throws, of a field that columns name and the row cannot have.
std::function<std::string(const char* known)> field_finder(const std::vector<std::string>& names,
                                                           const std::map<std::string, std::string>& columns,
                                                           std::function<void(const std::string& name)> missing);

// Takes prompt, messages (or conversations) or instruction, and what belongs to conversations. find: the field that is
// read as a known one; "": the row has none. Throws Error(data) where more than one of them is there.
void take_prompt(Form& form, const std::function<std::string(const char* known)>& find, const Place& place);

// The messages of these fields; of a prompt that is a text none. Throws Error(data).
nlohmann::ordered_json prompt_messages(const nlohmann::ordered_json& value, const Form& form, const Place& place);

// Throws Error(data) for what is no string.
std::string text_field(const nlohmann::ordered_json& value, const std::string& field, const Place& place);

// A prompt and what may be said to it: one text, or a list of them, the first of which is learnt. Likewise.
PromptRecord answered_prompt(std::string prompt, const nlohmann::ordered_json& value, const std::string& field,
                             const Place& place);

// All that may be said to the record's prompt; empty: it is of another form.
std::vector<std::string> completions_in(const Record& record);

}  // namespace hone::data
