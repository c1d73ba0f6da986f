// A step whose loss or gradient is NaN or infinite: before the update, the run stops or leaves it out, and says where
// it came from.
#pragma once

#include <string>

#include "base/env.h"
#include "hone/callback.h"
#include "train/stepper.h"

namespace hone::training {

struct Whereabouts {
  std::int64_t step = 0;  // the one that is being made
  const TrainingData& data;
  const Folder* run;            // where nonfinite-step-N.json goes; null: it is not written
  std::int64_t saved_step = 0;  // of the last checkpoint; -1: none
  const World& world;
  bool clips = true;            // by the norm of all gradients
  std::int64_t left_out = 0, may_leave_out = 0;  // updates of the run so far, and how many at most
};

// Name of the first weight that is not; of a model that ranks share out, of this rank's part. "": none.
std::string bad_weight(const Model& model, const RunWeights& weights);

inline constexpr const char* kNotFiniteFile = "nonfinite-step-";

// false: the update is to be left out, as it may be. Error(not_finite): it is not, with the first bad tensor and the
// records of the micro-batches at fault. The same on all ranks.
bool check_finite(const PendingUpdate& update, const Updater& updater, const Whereabouts& where);

}  // namespace hone::training
