// What the ranks of a run make sure of before it begins.
#pragma once

#include <optional>

#include "hone/recipe.h"
#include "hone/trainer.h"
#include "io/checkpoints.h"

namespace hone::training {

// Throws Error(config): the micro-batches of a step cannot be shared evenly among the ranks; a rank was given another
// recipe or other options than rank 0; a pipe, which one process alone can read; parallel.fsdp, parallel.context
// or parallel.tensor that do not go with their number, or not with the objective.
void check_ranks(const Recipe& recipe, const TrainOptions& options);

// The first of these alone.
std::string divisors_of(std::int64_t count);  // "1, 2, 3, 6": the numbers of ranks that can share so many evenly
void check_shared_evenly(const Recipe& recipe, int ranks);
// Of the run's ranks those on this machine, which share its memory.
int ranks_here(const World& world);

// Whether each rank keeps a share of the model instead of all of it: parallel.fsdp, parallel.tensor.
bool is_sharded(const Recipe& recipe, const World& world);

// Rank 0's choice, on all ranks.
std::optional<io::Checkpoint> from_first(const World& world, const std::optional<io::Checkpoint>& own);

}  // namespace hone::training
