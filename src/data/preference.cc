// Preference pairs.
#include "data/preference.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::data {
namespace {

// Columns for well-known names; shown, never used unasked.
std::string proposed_columns(const std::vector<std::string>& names) {
  const std::pair<const char*, std::string> all[] = {
      {"prompt", first_of(names, {"prompt", "question", "instruction", "query", "input", "context"})},
      {"chosen", first_of(names, {"chosen", "preferred", "better", "answer_w", "response_j", "accepted"})},
      {"rejected", first_of(names, {"rejected", "dispreferred", "worse", "answer_l", "response_k", "refused"})}};
  std::vector<std::string> pairs;
  for (const auto& [known, field] : all)
    if (!field.empty() && field != known) pairs.push_back(fmt::format("{}: {}", known, field));
  if (pairs.empty()) return "name the fields with columns, for instance columns: {prompt: question, chosen: better}";
  return advise_columns(pairs);
}

}  // namespace

Form preference_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                     const Place& place) {
  const auto find = [&](const char* known) {
    const std::string name = columns.contains(known) ? columns.at(known) : known;
    if (has(names, name) || has(names, name.substr(0, name.find('.')))) return name;
    throw Error(ErrorKind::data, fmt::format("{}: no field {}; found {}; expected prompt, chosen and rejected",
                                             place.text(), hone::quoted(name),
                                             names.empty() ? "none" : list_names(names)))
        .hint(proposed_columns(names));
  };
  Form form;
  form.prompt = find("prompt"), form.chosen = find("chosen"), form.rejected = find("rejected");
  return form;
}

std::string preference_text(const nlohmann::ordered_json& value, const std::string& field, const Place& place) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  Error error(ErrorKind::data, fmt::format("{}: field {}: got {}, expected a string", place.text(), hone::quoted(field),
                                           type_of(value)));
  if (!value.is_structured()) throw error;
  throw std::move(error).hint(
      "pairs of conversations are not supported: write prompt and answers as texts; columns: {chosen: chosen.value} "
      "reads a field of an object");
}

}  // namespace hone::data
