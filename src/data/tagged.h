// Texts whose words have labels, and answers whose steps have: which fields of a row they are.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/form.h"
#include "data/place.h"
#include "hone/source.h"

namespace hone::data {

// The names that columns can give another source.
const std::vector<std::string>& tagged_fields();
const std::vector<std::string>& steps_fields();

// tokens and tags (or ner_tags, or labels), or text and entities. By their names or as the columns say. Throws
// Error(data) that lists the row's fields and proposes columns.
Form tagged_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                 const Place& place);
// prompt, completions and labels, likewise.
Form steps_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                const Place& place);

// tokens: a list of texts; tags: as many names or whole numbers, -100 where nothing is learnt ("" of a record's tags).
// entities: a list of {start, end, label}, in characters, none of which lie one over the other. Throws Error(data).
TaggedRecord read_tagged(const nlohmann::ordered_json& value, const Form& form, const Place& place);
// completions: a list of texts; labels: as many, also true and false. Throws Error(data).
StepsRecord read_steps(const nlohmann::ordered_json& value, const Form& form, const Place& place);

}  // namespace hone::data
