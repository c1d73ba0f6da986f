// A query with texts, as objective: ranking learns them.
#include "cli/lists_to_classify.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/embedding.h"
#include "data/form.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

bool is_score(const std::string& known) { return known == "score" || known == "scores"; }

std::vector<std::string> names_of(const ordered_json& value) {
  std::vector<std::string> names;
  for (const auto& [name, field] : value.items())
    if (!field.is_null()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool ListsToClassify::are_columns(const std::map<std::string, std::string>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const auto& column) {
    return column.first != "documents" && !is_score(column.first) && data::has(data::ranked_fields(), column.first);
  });  // documents are also what a conversation is about
}

ListsToClassify::ListsToClassify(const std::map<std::string, std::string>& columns)
    : columns_(columns), templates_(columns), sources_(columns) {
  std::vector<std::string> read = data::ranked_fields();
  std::erase_if(read, is_score);
  for (auto& [known, name] : sources_) {
    if (name.empty()) throw Error(ErrorKind::config, fmt::format("--columns: {}: expected a field", known));
    if (!data::has(read, known))
      throw Error(ErrorKind::config, fmt::format("--columns: {} is not read of a query with texts; expected {}",
                                                 hone::quoted(known), join(read, ", ")));
    if (const std::string made = templates_.made_field(known); !made.empty()) name = made;
  }
}

bool ListsToClassify::is_list(const ordered_json& value) const {
  if (!value.is_object()) return false;
  if (!columns_.empty()) return true;
  const std::vector<std::string> names = names_of(value);
  return !data::first_of(names, {"query", "anchor", "sentence1"}).empty() &&
         !data::first_of(names, {"documents", "positive", "sentence2"}).empty() && !data::has(names, "text");
}

std::vector<LabelledRecord> ListsToClassify::read(ordered_json value, const data::Place& place) {
  const WordsOfFlags words;
  const std::vector<std::string> given = names_of(value);
  templates_.fill(value, place);
  const data::Form form = data::unscored_form(names_of(value), sources_, place);
  const std::vector<std::string> used = form.fields();
  for (const std::string& name : given) {
    const auto is_part = [&](const std::string& one) { return one == name || one.starts_with(name + "."); };
    if (std::none_of(used.begin(), used.end(), is_part) && !templates_.reads(name)) unread_.insert(name);
  }
  const EmbeddingRecord list = data::read_embedding(value, form, place);
  std::vector<LabelledRecord> all{{.text = list.query, .text_pair = list.document, .label = {}}};
  for (const std::string& other : list.others) all.push_back({.text = list.query, .text_pair = other, .label = {}});
  return all;
}

}  // namespace hone::cli
