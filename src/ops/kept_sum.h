// A GradientSum as autograd's functions keep it between forward and backward: as a number.
#pragma once

#include <cstdint>

#include "hone/gradient_sum.h"

namespace hone::ops {

inline std::int64_t to_number(GradientSum* sum) { return reinterpret_cast<std::int64_t>(sum); }
inline GradientSum* to_sum(std::int64_t number) { return reinterpret_cast<GradientSum*>(number); }

}  // namespace hone::ops
