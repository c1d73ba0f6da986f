// What people are told of a step that did not do all that a step does.
#pragma once

#include "hone/training_section.h"
#include "train/metrics.h"
#include "train/state.h"

namespace hone::training {

// A warning for each update, or estimate of an optimizer's, that was left out. state: after the step.
void tell_left_out(const StepReport& report, const TrainerSection& trainer, const RunState& state);

}  // namespace hone::training
