// Which pixels of a line each pixel of a resized line is made of, and how much of each.
#pragma once

#include <cstdint>
#include <vector>

#include "images/filter.h"

namespace hone::images {

struct Taps {
  std::int64_t first = 0;
  int count = 0;
};

// Of a part of the resized line: `stride` weights for each pixel, of which `count` are used.
struct Weights {
  std::vector<Taps> taps;
  std::vector<std::int16_t> values;
  int stride = 0;
  int precision = 0;  // bits of a weight behind the point
  const std::int16_t* of(std::int64_t pixel) const { return values.data() + pixel * stride; }
};

// A line of `from` pixels that becomes one of `to`, of which `count` from `begin` on are wanted.
// REQUIRES: the filter is not `nearest`.
Weights weights_of(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t count, Filter filter);

}  // namespace hone::images
