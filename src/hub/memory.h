// How much memory a model takes, and whether this machine has it.
#pragma once

#include <ATen/core/Tensor.h>

#include "hone/hub.h"

namespace hone::hub {

at::ScalarType type_of(Precision precision);  // resolves `auto`
at::ScalarType type_of(const Weight& weight, WeightTypes types);
// Throws Error(config) with both figures when the weights alone are larger than the machine's memory.
void check_memory(const Module& model, WeightTypes types);

}  // namespace hone::hub
