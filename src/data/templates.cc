// Columns that are templates.
#include "data/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/strings.h"
#include "data/form.h"
#include "hone/error.h"
#include "text/chat/chat_turns.h"
#include "text/jinja/fault.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kRow = "row";  // all of a record, unless it has a field of that name

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& all, const std::string& name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

// What is no text where it is read.
bool is_structured(const std::string& known) {
  constexpr std::array<std::string_view, 9> kAll = {"messages",  "conversations", "input_ids", "labels", "tools",
                                                    "documents", "history",       "choices",   "chat_template_kwargs"};
  return is_one_of(kAll, known);
}

// What is a text, or a list of messages.
bool may_be_messages(const std::string& known) {
  constexpr std::array<std::string_view, 4> kAll = {"prompt", "completion", "chosen", "rejected"};
  return is_one_of(kAll, known);
}
bool is_messages(const json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const json& one) {
    return one.is_object() && (one.contains("role") || one.contains("from"));
  });
}

jinja::Value value_of(const json& field, const std::string& name) {
  switch (field.type()) {
    case json::value_t::boolean:
      return jinja::Value::boolean(field.get<bool>());
    case json::value_t::number_integer:
      return jinja::Value::integer(field.get<std::int64_t>());
    case json::value_t::number_unsigned:
      if (field.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max())
        return jinja::Value::integer(field.get<std::int64_t>());
      [[fallthrough]];
    case json::value_t::binary:  // its digits: it is larger still
      return jinja::Value::undefined(fmt::format("'{}' is an integer that does not fit 64 bits", name));
    case json::value_t::number_float:
      return jinja::Value::real(field.get<double>());
    case json::value_t::string:
      return jinja::Value::string(field.get<std::string>());
    case json::value_t::array: {
      jinja::Values items;
      for (const json& item : field) items.push_back(value_of(item, name));
      return jinja::Value::list(std::move(items));
    }
    case json::value_t::object: {
      auto dict = std::make_shared<jinja::Dict>();
      for (const auto& [key, item] : field.items()) dict->set(key, value_of(item, name + "." + key));
      return jinja::Value::dict(std::move(dict));
    }
    default:
      return {};
  }
}

}  // namespace

bool ColumnTemplates::is_template(const std::string& column) {
  return column.find("{{") != std::string::npos || column.find("{%") != std::string::npos;
}

ColumnTemplates::ColumnTemplates(const std::map<std::string, std::string>& columns) {
  for (const auto& [known, column] : columns) {
    if (!is_template(column)) continue;
    auto made = std::make_shared<jinja::Template>(column, "columns: " + known, jinja::Spacing::as_written);
    std::set<std::string> variables = made->variables();
    if (variables.empty())
      throw Error(ErrorKind::config,
                  fmt::format("{}: its template reads no field: {}", made->name(), hone::quoted(column)))
          .hint("{{ question }} is the field question, {{ row[\"2\"] }} the one that is called 2");
    reads_row_ |= variables.erase(kRow) > 0;
    variables_.merge(variables);
    templates_.push_back({known, std::move(made)});
  }
}

std::string ColumnTemplates::made_field(const std::string& known) const {
  const bool there =
      std::any_of(templates_.begin(), templates_.end(), [&](const Made& one) { return one.known == known; });
  return there ? "{{" + known + "}}" : "";
}

std::vector<std::string> ColumnTemplates::made_fields() const {
  std::vector<std::string> all;
  for (const Made& one : templates_) all.push_back(made_field(one.known));
  return all;
}

void ColumnTemplates::fill(json& row, const Place& place) const {
  if (empty()) return;
  jinja::Dict variables;
  try {
    for (const std::string& name : variables_)
      if (const auto field = row.find(name); field != row.end() && !field->is_null())
        variables.set(name, value_of(*field, name));
    if (reads_row_) variables.set(kRow, value_of(row.contains(kRow) ? row[kRow] : row, kRow));
  } catch (const jinja::Fault& fault) {
    throw Error(ErrorKind::data, place.text() + ": " + fault.message);
  }
  for (const auto& [known, how] : templates_) {
    std::string text;
    try {
      text = how->render(variables, text::kTrainingDate, {}, jinja::Undefined::fails).text;
    } catch (const Error& error) {
      Error told(ErrorKind::data, fmt::format("{}: {}", place.text(), error.what()));
      const std::string_view what = error.what();
      const bool missing = what.find("is undefined") != what.npos || what.find(" null") != what.npos;
      if (!missing) throw told;
      throw std::move(told).hint(
          "a field that some records lack is written where it is there: {% if input %}{{ input }}{% endif %}");
    }
    if (text.empty() && is_optional_column(known)) continue;
    if (text.empty())
      throw Error(ErrorKind::data,
                  fmt::format("{}: {}: its template makes nothing of this record", place.text(), known));
    json value = is_structured(known) || may_be_messages(known) ? json::parse(text, nullptr, /*allow_exceptions=*/false)
                                                                : json();
    if (is_structured(known) && value.is_discarded())
      throw Error(ErrorKind::data, fmt::format("{}: {}: got {}, expected JSON", place.text(), how->name(),
                                               hone::quoted(text)))
          .hint("what is read as a list or an object is written by {{ [a, b] | tojson }}");
    row[made_field(known)] = is_structured(known) || is_messages(value) ? std::move(value) : json(std::move(text));
  }
}

}  // namespace hone::data
