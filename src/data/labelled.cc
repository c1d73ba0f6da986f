// Texts with a label.
#include "data/labelled.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// Columns for well-known sets of names; shown, never used unasked.
std::string label_proposal(const std::vector<std::string>& names) {
  const Columns found = {
      {"text", first_of(names, {"text", "sentence", "sentence1", "premise", "question1", "question", "review",
                                "content", "message", "verse_text", "title"})},
      {"text_pair", first_of(names, {"sentence2", "hypothesis", "question2", "passage", "context"})},
      {"label", first_of(names, {"label", "labels", "class", "category", "target", "sentiment", "intent"})}};
  return advise_columns(found, {{"text", "review"}, {"label", "stars"}});
}

Error bad_label(const std::string& got, const std::string& field, const Place& place, const std::string& expected) {
  return Error(ErrorKind::data,
               fmt::format("{}: field {}: got {}, expected {}", place.text(), hone::quoted(field), got, expected));
}

constexpr const char* kLabel = "a name or a whole number";

}  // namespace

Form labelled_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place) {
  const auto source_of = [&](const char* known) { return columns.contains(known) ? columns.at(known) : known; };
  const auto find = [&](const char* known) {
    const std::string name = source_of(known);
    return has(names, name) || has(names, name.substr(0, name.find('.'))) ? name : "";
  };
  const Form form{.text = find("text"), .text_pair = find("text_pair"), .label = find("label")};
  for (const auto& [known, name] : {std::pair{"text", form.text}, {"label", form.label}})
    if (name.empty())
      throw Error(ErrorKind::data,
                  fmt::format("{}: no field {}; found {}; expected text and label, and text_pair where there are two",
                              place.text(), hone::quoted(source_of(known)), names.empty() ? "none" : list_names(names)))
          .hint(label_proposal(names));
  if (form.text_pair.empty() && columns.contains("text_pair"))
    throw Error(ErrorKind::data, fmt::format("{}: no field {} to read text_pair from; found {}", place.text(),
                                             hone::quoted(source_of("text_pair")), list_names(names)));
  return form;
}

std::string label_of(const json& value, const std::string& field, const Place& place) {
  if (value.is_string()) return label_of(value.get_ref<const std::string&>(), field, place);
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return label_of(value.dump(), field, place);
  if (value.is_array())
    throw bad_label("a list", field, place, kLabel).hint("several labels for one text are not supported");
  if (value.is_number_float())
    throw bad_label(value.dump(), field, place, kLabel).hint("scores to be learnt by regression are not supported");
  throw bad_label(type_of(value), field, place, kLabel);
}

std::string label_of(const std::string& cell, const std::string& field, const Place& place) {
  if (cell.find('\0') != std::string::npos) throw bad_label("a zero byte", field, place, kLabel);
  if (trim(cell).empty()) throw bad_label("an empty text", field, place, kLabel);
  if (const auto number = parse_int(cell); number && *number < 0)
    throw bad_label(cell, field, place, "a label of 0 or more")
        .hint("data sets mark records whose label is kept secret so: leave this file out");
  return cell;
}

void sort_labels(std::vector<std::string>& labels) {
  const bool numbers = std::all_of(labels.begin(), labels.end(), [](const auto& label) { return parse_int(label); });
  if (!numbers) return std::sort(labels.begin(), labels.end());
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return *parse_int(a) < *parse_int(b); });
}

}  // namespace hone::data
