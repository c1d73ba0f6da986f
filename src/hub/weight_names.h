// What the weights of a model may be called.
#pragma once

#include "hone/module.h"

namespace hone::hub {

// Error(bug): two weights of one name, or a name that no file can hold, which would be found when the model is saved.
void check_weight_names(const Module& model);

}  // namespace hone::hub
