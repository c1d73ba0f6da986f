// trainer.batch_size: auto.
#pragma once

#include <functional>
#include <string>

#include "hone/recipe.h"
#include "hone/world.h"
#include "train/inputs.h"

namespace hone::training {

// How large a micro-batch is found to be.
struct BatchChoice {
  std::int64_t batch_size = 1, accumulate = 1;
  std::string reason;  // for people
};

// Of the numbers that divide a step's rows so that its micro-batches are shared evenly among ranks, the largest one, up
// to `most`, whose peak (bytes that the machine's ranks take, by rows) is within the limit. Throws Error(config) where
// there is none.
BatchChoice choose_batch(std::int64_t step_rows, std::int64_t most, int ranks, std::uint64_t limit,
                         const std::function<std::uint64_t(std::int64_t)>& peak);

// Where the recipe leaves it open, fills in batch_size and accumulate as rank 0 finds them; "" where it does not, else
// what was chosen and why. `loaded`: the recipe's inputs, which do not depend on it.
// planned: of a run with so many ranks on one machine that nobody starts; 0: of the world's.
std::string choose_batch_size(Recipe& recipe, const Inputs& loaded, const World& world, int planned = 0);

// As a run's own recipe (YAML) has it, so that it goes on with the same micro-batches.
void take_batch_size(Recipe& recipe, const std::string& saved_yaml, const std::string& where);

}  // namespace hone::training
