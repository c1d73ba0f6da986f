// The fields of a row that make a record.
#include "data/form.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"

namespace hone::data {

std::vector<std::string> Form::fields() const {
  std::vector<std::string> all;
  for (const std::string* name : {&text, &prompt, &completion, &input_ids, &labels, &text_pair, &label, &chosen,
                                  &rejected,
                                  &messages, &instruction, &input,
                                  &output, &history, &system, &tools, &documents, &variables})
    if (!name->empty()) all.push_back(*name);
  return all;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string first_of(const std::vector<std::string>& names, std::initializer_list<const char*> wanted) {
  for (const char* name : wanted)
    if (has(names, name)) return name;
  return "";
}

std::string advise_columns(const std::vector<std::string>& pairs) {
  return fmt::format("say which fields to read, for instance columns: {{{}}}", escape_for_terminal(join(pairs, ", ")));
}

}  // namespace hone::data
