// The state that a run begins with: a new one, or a checkpoint's, once it is clear that the run may go on from it.
#pragma once

#include <optional>
#include <vector>

#include "hone/trainer.h"
#include "io/run_folder.h"
#include "train/inputs.h"
#include "train/resources.h"
#include "train/state.h"
#include "train/updater.h"

namespace hone::training {

struct RestoreFrom {
  const Recipe& recipe;
  const TrainOptions& options;
  const Inputs& inputs;  // with weights
  io::RunFolder& run;
  const std::optional<io::Checkpoint>& from;
  const std::vector<config::Change>& changes;
  RunResources& resources;
  const RunState& begin;  // how far a new run is already
};

// Also fills the updater. Error(data): other data or another tokenizer than so far; Error(checkpoint);
// Error(not_finite).
RunState restore(const RestoreFrom& parts, Updater& updater);

}  // namespace hone::training
