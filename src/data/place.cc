// The words for places and values.
#include "data/place.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "data/indexed_line.h"

namespace hone::data {

using json = nlohmann::ordered_json;

std::string type_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      if (value.empty()) return "an empty list";
      return fmt::format("a list (its first element is {})", value[0].is_array() ? "a list" : type_of(value[0]));
    case json::value_t::string:
      return "a string";
    case json::value_t::boolean:
      return "a boolean";
    case json::value_t::binary:
      return "an integer that does not fit 64 bits";
    default:
      return "a number";
  }
}

std::string Place::text() const { return line > 0 ? fmt::format("{}:{}", path, line_words(line)) : path; }

Error FieldPlace::bad(const std::string& got, const std::string& expected) const {
  return Error(ErrorKind::data,
               fmt::format("{}: field {}: got {}, expected {}", place.text(), hone::quoted(field), got, expected));
}

}  // namespace hone::data
