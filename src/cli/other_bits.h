// What a run computed with in fewer bits than a command does.
#pragma once

#include "hone/hub.h"
#include "hone/quantization.h"

namespace hone::cli {

// A warning where the place is a run's checkpoint and its numbers will not be those of the run: weights that the run
// rounded in every pass (trainer.qat), or an adapter's base that it held in fewer bits, while `quantization` says
// nothing.
void warn_of_other_bits(const ModelPlace& place, const Quantization& quantization);
// Likewise of what will be merged: it goes with the base in full.
void warn_of_merged_bits(const ModelPlace& place);

}  // namespace hone::cli
