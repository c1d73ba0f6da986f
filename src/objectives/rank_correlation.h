// Spearman's correlation of ranks.
#pragma once

#include <span>

namespace hone::objectives {

// Of two lists of as many numbers, those that are equal sharing the mean of their ranks; 0 where all of one are equal.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace hone::objectives
