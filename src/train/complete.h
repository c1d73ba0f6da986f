// The last step of a recipe's way (hone/recipe.h): what only the start of a run decides, in one place for all that run
// one.
#pragma once

#include <cstdint>
#include <string>

#include "hone/recipe.h"

namespace hone {
class Env;
}

namespace hone::training {

// Each checks the recipe once more: who calls may have changed it since it was read. Error(config) with all problems.
// In all of them the device is one that is here, and the precision the one that it computes in.

// As config.yaml says it: with a folder, which for run.name is the next one, or with `resume` the newest there is.
Recipe completed_for_run(const Recipe& given, Env& env, bool resume);
// To look at what it names, with nothing written: tokenised data is not kept, unless the recipe says where.
Recipe completed_for_preview(const Recipe& given);
// To make `steps` of its steps in `folder`, and no evaluation. The run's length is its own.
Recipe completed_for_bench(const Recipe& given, const std::string& folder, std::int64_t steps);

}  // namespace hone::training
