// Updates whose gradients are far longer than those before them.
#pragma once

#include <cstdint>
#include <vector>

#include "hone/recipe.h"

namespace hone::training {

// Whether a norm lies more than sigma standard deviations above the mean of `norms`, of which there must be
// options.window; remembers it among them in any case, so that a level that stays is soon no spike any more.
bool is_spike(const SpikeSection& options, double norm, std::vector<double>& norms);

}  // namespace hone::training
