// What the ranks of a run make sure of before it begins.
#pragma once

#include <optional>

#include "hone/recipe.h"
#include "hone/trainer.h"
#include "io/checkpoints.h"

namespace hone::training {

// Throws Error(config): a rank was given another recipe or other options than rank 0; and as check_for_ranks() does.
void check_ranks(const Recipe& recipe, const TrainOptions& options);
// Throws Error(config): the micro-batches of a step cannot be shared evenly among so many ranks; a pipe, which one
// process alone can read; parallel.fsdp, parallel.context or parallel.tensor that do not go with their number, or not
// with the objective, callbacks or saves.
void check_for_ranks(const Recipe& recipe, int ranks);

// The first of these alone.
std::string divisors_of(std::int64_t count);  // "1, 2, 3, 6": the numbers of ranks that can share so many evenly
void check_shared_evenly(const Recipe& recipe, int ranks);
// Of the run's ranks those on this machine, which share its memory.
int ranks_here(const World& world);

// Whether each rank keeps a share of the model instead of all of it, where there are several: parallel.fsdp,
// parallel.tensor.
inline bool shares_weights(const Recipe& recipe) { return recipe.parallel.fsdp != 1 || recipe.parallel.tensor != 1; }
bool is_sharded(const Recipe& recipe, const World& world);

// Rank 0's choice, on all ranks.
std::optional<io::Checkpoint> from_first(const World& world, const std::optional<io::Checkpoint>& own);

}  // namespace hone::training
