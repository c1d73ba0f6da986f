// Values as text: Python's str() and repr(), and json.dumps().
#pragma once

#include <optional>
#include <string>

#include "text/jinja/value.h"

namespace hone::jinja {

std::string to_str(const Value& value);
std::string to_repr(const Value& value);
std::string repr_of(std::string_view text);  // 'it' or "it's", with escapes
std::string repr_of(double value);           // the shortest digits that read back as the same number
// A text stays as it is (with its mark), everything else becomes one.
Value soft_str(const Value& value);
// Marked as HTML: marked texts as they are, all others escaped.
Value escaped(const Value& value);

struct JsonForm {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;  // of one level; nothing: one line
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(const Value& value, const JsonForm& form);

// Throws a Fault when the text does not hold one JSON value; keys keep their order. what: begins the message.
Value from_json(std::string_view text, std::string_view what);

}  // namespace hone::jinja
