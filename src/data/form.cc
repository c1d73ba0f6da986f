// The fields of a row that make a record.
#include "data/form.h"

#include <algorithm>
#include <array>

#include "base/option_words.h"
#include "base/strings.h"

namespace hone::data {

std::vector<std::string> Form::fields() const {
  std::vector<std::string> all;
  for (const std::string* name :
       {&text, &prompt, &completion, &input_ids, &labels, &text_pair, &label, &chosen, &rejected, &answer,
        &choices, &messages, &instruction, &input, &output, &history, &system, &tools, &documents, &variables, &images,
        &query, &positive, &negatives, &score, &words, &tags, &entities, &steps, &question, &context, &answers, &id,
        &logprobs, &logprob_ids})
    if (!name->empty()) all.push_back(*name);
  all.insert(all.end(), more_negatives.begin(), more_negatives.end());
  return all;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool can_have(const std::vector<std::string>& names, const std::string& field) {
  return has(names, field) || has(names, field.substr(0, field.find('.')));
}

const nlohmann::ordered_json* find_field(const nlohmann::ordered_json& object, const std::string& name) {
  if (const auto it = object.find(name); it != object.end()) return it->is_null() ? nullptr : &*it;
  const nlohmann::ordered_json* at = &object;
  for (const std::string& part : hone::split(name, '.')) {
    if (!at->is_object()) return nullptr;
    const auto it = at->find(part);
    if (it == at->end() || it->is_null()) return nullptr;
    at = &*it;
  }
  return at;
}

bool is_optional_column(std::string_view known) {
  constexpr std::array<std::string_view, 8> kAll = {"input",     "history",              "system", "tools",
                                                    "documents", "chat_template_kwargs", "answer", "images"};
  return std::find(kAll.begin(), kAll.end(), known) != kAll.end();
}

std::string first_of(const std::vector<std::string>& names, std::initializer_list<const char*> wanted) {
  for (const char* name : wanted)
    if (has(names, name)) return name;
  return "";
}

std::string advise_columns(const Columns& found, const Columns& standard) {
  Columns renamed;
  for (const auto& [known, field] : found)
    if (!field.empty() && field != known) renamed.emplace_back(known, field);
  return renamed.empty() ? "name the fields, for instance " + columns_words(standard)
                         : "say which fields to read, for instance " + columns_words(renamed);
}

}  // namespace hone::data
