// Weights of codes with scales, by the names that a method of quantizing gives their tensors.
#pragma once

#include "hub/packed/packed.h"
#include "hub/packed/quantization_config.h"

namespace hone::hub {

// Adds those that `config` tells of. Error(checkpoint): a part is missing, or not as it should be.
void find_codes(const Places& tensors, const PackedConfig& config, PackedWeights& found);

}  // namespace hone::hub
