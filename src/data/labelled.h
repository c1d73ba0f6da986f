// Texts with a label: which fields of a row they are, and what a label may be.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"

namespace hone::data {

// text, label and, where the row has it, text_pair; by their names or as the columns say. Throws Error(data) that lists
// the row's fields and proposes columns.
Form labelled_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place);

// A name or a whole number, as text. Throws Error(data).
std::string label_of(const nlohmann::ordered_json& value, const std::string& field, const Place& place);
std::string label_of(const std::string& cell, const std::string& field, const Place& place);  // of a table

// By value if all are numbers, else by name.
void sort_labels(std::vector<std::string>& labels);

}  // namespace hone::data
