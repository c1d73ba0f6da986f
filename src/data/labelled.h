// Texts with a label: which fields of a row they are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"

namespace hone::data {

// text, label and, where the row has it, text_pair; by their names or as the columns say. Throws Error(data) that lists
// the row's fields and proposes columns.
Form labelled_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place);

}  // namespace hone::data
