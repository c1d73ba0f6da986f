// Python's order of values within a type, and membership; equality comes with the values.
#pragma once

#include "text/jinja/value.h"

namespace hone::jinja {

// a < b as -1, a == b as 0, a > b as 1, unordered (NaN) as 2; throws "'<' not supported between instances of ...".
int order(const Value& a, const Value& b, const char* sign = "<");
bool less(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

}  // namespace hone::jinja
