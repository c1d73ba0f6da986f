// Quantiles of numbers that ranks have a part of each.
#pragma once

#include <vector>

#include "hone/world.h"

namespace hone::objectives {

// What a share of all ranks' numbers is not above, as torch.quantile has it: between two neighbours in proportion. The
// same on all ranks; without any number, or with one that is NaN, NaN.
double quantile_over(const World& world, const std::vector<double>& own, double share);

}  // namespace hone::objectives
