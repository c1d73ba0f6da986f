// Numbers and strings as they are written in a template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::jinja {

struct Number {
  std::size_t size = 0;  // bytes read
  bool whole = true;
  std::int64_t integer = 0;
  double real = 0;
};
// REQUIRES: text begins with a digit. after_dot: then it is no number with a fraction (as in `list.0.1`).
Number read_number(std::string_view text, bool after_dot, int line);

// The inside of a quoted string with Python's escapes resolved. Throws a Fault at the line.
std::string unescaped(std::string_view text, int line);

}  // namespace hone::jinja
