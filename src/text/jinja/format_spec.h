// The parts of a format specification: [[fill]align][sign][#][0][width][,][.precision][type].
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace hone::jinja {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0', sign = '-', group = '\0', type = '\0';
  bool alternate = false, zero = false;
  int width = -1, precision = -1;
};

FormatSpec parse_format(const std::string& text);
std::string format_value(const Value& value, const FormatSpec& spec);
// Padded to the width; otherwise: the alignment if the specification names none.
std::string aligned(const std::string& text, const FormatSpec& spec, char otherwise);

}  // namespace hone::jinja
