// Stops a run whose loss or gradient is NaN or infinite, before the update, and says where it came from.
#pragma once

#include "base/env.h"
#include "train/stepper.h"

namespace hone::training {

struct Whereabouts {
  std::int64_t step = 0;  // the one that is being made
  const TrainingData& data;
  const Folder& run;            // where nonfinite-step-N.json goes
  std::int64_t saved_step = 0;  // of the last checkpoint; -1: none
  const World& world;
};

// Error(not_finite), with the first bad gradient and the records of the micro-batches at fault. The same on all ranks.
void check_finite(const PendingUpdate& update, const Updater& updater, const Whereabouts& where);

}  // namespace hone::training
