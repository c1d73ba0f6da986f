// Columns that are templates.
#include "data/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "hone/error.h"
#include "text/chat/chat_turns.h"
#include "text/jinja/fault.h"
#include "text/jinja/print.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// What is no text where it is read.
bool is_structured(const std::string& known) {
  constexpr std::array<std::string_view, 10> kAll = {"messages",        "conversations",       "input_ids", "labels",
                                                     "tools",           "documents",           "history",   "choices",
                                                     "chosen_messages", "chat_template_kwargs"};
  return std::find(kAll.begin(), kAll.end(), known) != kAll.end();
}

// null is a field that is not there.
void set_variables(const json& row, const std::string& where, jinja::Dict& all) {
  try {
    for (const auto& [name, field] : row.items())
      if (!field.is_null()) all.set(name, jinja::from_json(field.dump(), name));
  } catch (const jinja::Fault& fault) {
    throw Error(ErrorKind::data, where + ": " + fault.message);
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]), ends = at + word.size() == text.size();
    if (begins && (ends || !is_word(text[at + word.size()]))) return true;
  }
  return false;
}

}  // namespace

bool ColumnTemplates::is_template(const std::string& column) {
  return column.find("{{") != std::string::npos || column.find("{%") != std::string::npos;
}

ColumnTemplates::ColumnTemplates(const std::map<std::string, std::string>& columns, const std::string& path) {
  for (const auto& [known, column] : columns)
    if (is_template(column))
      templates_.push_back(
          {known, std::make_shared<jinja::Template>(column, fmt::format("{}: columns: {}", path, known),
                                                    jinja::Spacing::as_written)});
}

std::string ColumnTemplates::made_field(const std::string& known) const {
  const auto found =
      std::find_if(templates_.begin(), templates_.end(), [&](const Made& one) { return one.known == known; });
  return found == templates_.end() ? "" : "{{" + known + "}}";
}

std::vector<std::string> ColumnTemplates::made_fields() const {
  std::vector<std::string> all;
  for (const Made& one : templates_) all.push_back(made_field(one.known));
  return all;
}

bool ColumnTemplates::mentions(const std::string& field) const {
  return std::any_of(templates_.begin(), templates_.end(),
                     [&](const Made& one) { return has_word(one.how->source(), field); });
}

json ColumnTemplates::filled(const json& row, const Place& place) const {
  jinja::Dict variables;
  set_variables(row, place.text(), variables);
  json made = row;
  for (const auto& [known, how] : templates_) {
    std::string text;
    try {
      text = how->render(variables, text::kTrainingDate, {}, jinja::Undefined::fails).text;
    } catch (const Error& error) {
      throw Error(ErrorKind::data, fmt::format("{}: {}", place.text(), error.what()))
          .hint("a field that some records lack is written where it is there: {% if input %}{{ input }}{% endif %}");
    }
    if (text.empty()) continue;
    json& field = made[made_field(known)];
    if (!is_structured(known)) {
      field = std::move(text);
      continue;
    }
    field = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (field.is_discarded())
      throw Error(ErrorKind::data,
                  fmt::format("{}: {}: got {}, expected JSON", place.text(), how->name(), hone::quoted(text)))
          .hint("what is read as a list or an object is written by {{ [a, b] | tojson }}");
  }
  return made;
}

}  // namespace hone::data
