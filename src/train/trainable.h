// Which weights of a model are trained: model.trainable.
#pragma once

#include <string>
#include <vector>

#include "hone/model.h"

namespace hone::training {

// Freezes all weights but those whose name one of the regular expressions (ECMAScript) matches anywhere; none: all stay
// trainable. Throws Error(config) for an expression that matches no weight, with names that there are.
void choose_trainable(Model& model, const std::vector<std::string>& patterns);

std::int64_t trained_parameters(const Model& model);

}  // namespace hone::training
