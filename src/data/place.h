// Where a row stands and what a value of it is, in the words of error messages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "hone/error.h"

namespace hone::data {

// A row's place, made into text only when something is wrong with it.
struct Place {
  const std::string& path;
  std::int64_t line = 0;
  std::string text() const;  // "path:line"; of what has no lines "path"
};

// One of its fields.
struct FieldPlace {
  const std::string& field;
  const Place& place;
  // That it has another value than is expected.
  Error bad(const std::string& got, const std::string& expected) const;
};

// "a number", "a list (its first element is an object)", ... for messages.
std::string type_of(const nlohmann::ordered_json& value);

}  // namespace hone::data
