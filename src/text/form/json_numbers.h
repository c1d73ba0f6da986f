// Numbers of JSON within bounds, as regular expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hone::text {

// Whole numbers; an exclusive bound does not belong to what it bounds.
struct NumberBounds {
  std::optional<std::int64_t> low, high;
  bool low_exclusive = false, high_exclusive = false;
  bool any() const { return low || high; }
};

// Integers without a point or exponent; "": there is none. REQUIRES: bounds are not exclusive.
std::string integers_within(const NumberBounds& bounds);
// Numbers; where there are bounds, without an exponent. "": there is none.
std::string numbers_within(const NumberBounds& bounds);

}  // namespace hone::text
