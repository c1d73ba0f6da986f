// Texts with a label.
#include "data/labelled.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::data {
namespace {

// Columns for well-known sets of names; shown, never used unasked.
std::string label_proposal(const std::vector<std::string>& names) {
  const Columns found = {
      {"text", first_of(names, {"text", "sentence", "sentence1", "premise", "question1", "question", "review",
                                "content", "message", "verse_text", "title"})},
      {"text_pair", first_of(names, {"sentence2", "hypothesis", "question2", "passage", "context"})},
      {"label", first_of(names, {"label", "labels", "class", "category", "target", "sentiment", "intent"})}};
  if (has(names, "1") && has(names, "2")) return advise_columns({}, {{"text", "2"}, {"label", "1"}});
  return advise_columns(found, {{"text", "review"}, {"label", "stars"}});
}

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

}  // namespace hone::data
