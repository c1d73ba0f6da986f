// How finely work is split over threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hone::ops {

// Rows per task when a row has `cols` elements of light work: about 16 k elements, what a thread does in a few
// microseconds.
inline std::int64_t grain(std::int64_t cols) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
}

}  // namespace hone::ops
