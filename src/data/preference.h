// Preference pairs: which fields of a row they are.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"

namespace hone::data {

// prompt, chosen and rejected; by their names or as the columns say. Throws Error(data) that lists the row's fields and
// proposes columns.
Form preference_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                     const Place& place);

// The text of one of them. Throws Error(data) for anything else, conversations among it.
std::string preference_text(const nlohmann::ordered_json& value, const std::string& field, const Place& place);

}  // namespace hone::data
