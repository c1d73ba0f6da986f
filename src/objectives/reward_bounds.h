// How large a reward may be, whoever gives it.
#pragma once

#include <cmath>

namespace hone::objectives {

inline constexpr double kMostReward = 1e9;  // what is further from 0 is a mistake, and would be all that is learnt from

inline bool may_be_reward(double value) { return std::abs(value) <= kMostReward; }  // NaN: no

}  // namespace hone::objectives
