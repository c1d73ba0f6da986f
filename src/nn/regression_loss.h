// By what numbers are learnt that a head for labels gives.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "hone/config_read.h"

namespace hone::nn {

// How far numbers are from those that are wanted, or, of numbers between 0 and 1, how unlikely these are; the sigmoid
// of what the head gives is then the number.
enum class RegressionLoss { squared_error, binary_cross_entropy };

}  // namespace hone::nn

template <>
inline constexpr auto hone::config::enum_names<hone::nn::RegressionLoss> =
    std::to_array<std::pair<hone::nn::RegressionLoss, std::string_view>>(
        {{hone::nn::RegressionLoss::squared_error, "squared_error"},
         {hone::nn::RegressionLoss::binary_cross_entropy, "binary_cross_entropy"}});
