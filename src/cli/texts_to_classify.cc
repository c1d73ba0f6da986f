// A label is none of the record's yet: what stands there is read by nobody.
#include "cli/texts_to_classify.h"

#include <fmt/format.h>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/form.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

std::string text_at(const ordered_json& value, const std::string& name, const data::Place& place) {
  if (value.is_string()) return value.get<std::string>();
  throw Error(ErrorKind::data,
              fmt::format("{}: field {}: got {}, expected a string", place.text(), name, data::type_of(value)));
}

// name: of the field; plain: a string would do.
Error no_text(const ordered_json& value, const data::Place& place, const std::string& name, bool plain) {
  const bool other = value.is_object() && !value.empty();
  std::vector<std::string> names;
  if (other)
    for (const auto& [key, field] : value.items()) names.push_back(key);
  const WordsOfFlags words;
  return Error(ErrorKind::data, fmt::format("{}: no text; expected {}an object with a field {}{}", place.text(),
                                            plain ? "a string, or " : "", name,
                                            other ? "; found " + list_names(names) : ""))
      .hint((other ? columns_words({{kTextField, names[0]}}) + " reads it from that field; " : "") +
            "text_pair beside it is the second of two texts");
}

}  // namespace

TextsToClassify::TextsToClassify(const std::map<std::string, std::string>& columns)
    : columns_(columns), templates_(columns) {
  for (const auto& [known, name] : columns)
    if ((known != kTextField && known != kPairField) || name.empty())
      throw Error(ErrorKind::config, name.empty() ? fmt::format("--columns: {}: expected a field", known)
                                                  : fmt::format("--columns: \"{}\" is not read; expected text or "
                                                                "text_pair",
                                                                escape_for_terminal(known)));
}

std::string TextsToClassify::source_of(const std::string& known) const {
  const std::string made = templates_.made_field(known);
  const auto named = columns_.find(known);
  return !made.empty() ? made : named == columns_.end() ? known : named->second;
}

LabelledRecord TextsToClassify::read(ordered_json value, const data::Place& place) {
  LabelledRecord texts;
  if (value.is_string() && columns_.empty()) {
    texts.text = value.get<std::string>();
    return texts;
  }
  const std::string first = source_of(kTextField), second = source_of(kPairField);
  if (!value.is_object()) throw no_text(value, place, first, columns_.empty());
  const ordered_json given = value;
  templates_.fill(value, place);
  const auto is_part_of = [](const std::string& name, const std::string& source) {
    return name == source || source.starts_with(name + ".");
  };
  for (const auto& [name, field] : given.items())
    if (!is_part_of(name, first) && !is_part_of(name, second) && !templates_.reads(name)) unread_.insert(name);
  const ordered_json* const text = data::find_field(value, first);
  if (!text || text->is_null())
    throw no_text(given, place, templates_.made_field(kTextField).empty() ? first : kTextField, columns_.empty());
  texts.text = text_at(*text, first, place);
  const ordered_json* const pair = data::find_field(value, second);
  if (pair && !pair->is_null()) texts.text_pair = text_at(*pair, second, place);
  return texts;
}

}  // namespace hone::cli
