// Measuring a checkpoint of a run on sets that the run has never read.
#pragma once

#include <filesystem>

#include "hone/recipe.h"

namespace hone::training {

// recipe: the run's own, with data.test; checkpoint: of that run. Measured as the run's evaluations are, by its
// objective; "test_loss" when there is one set, else "test_<name>_loss". Error(config, data, checkpoint, not_finite);
// of kind kStopped after a signal.
Metrics test(const Recipe& recipe, const std::filesystem::path& checkpoint);

}  // namespace hone::training
