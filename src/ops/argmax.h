// The place of the largest value.
#pragma once

#include <cstdint>
#include <span>

namespace hone::ops {

// Of equal ones the first; values that are not numbers are passed over. REQUIRES: not empty.
std::int64_t argmax(std::span<const float> values);

}  // namespace hone::ops
