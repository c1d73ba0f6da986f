// Python's comparisons: equality over all types, order within a type, membership.
#pragma once

#include "text/jinja/value.h"

namespace hone::jinja {

bool equal(const Value& a, const Value& b);
// a < b as -1, a == b as 0, a > b as 1, unordered (NaN) as 2; throws "'<' not supported between instances of ...".
int order(const Value& a, const Value& b, const char* sign = "<");
bool less(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);

}  // namespace hone::jinja
