// Whether ranks may each have a slice of the weights: parallel.tensor.
#pragma once

#include <string>
#include <vector>

#include "hone/adapter.h"
#include "hone/model.h"
#include "hone/recipe.h"

namespace hone::training {

// Error(config): parallel.tensor does not go with so many ranks, the objective, the optimizer or something else that
// the recipe asks for. Nothing is loaded. Models are looked at by check_context_models().
void check_tensor(const Recipe& recipe, int ranks);

// The same of an adapter on these modules of the model.
void check_sliced_adapter(const Model& model, const LoraConfig& adapter, const std::vector<std::string>& adapted);

}  // namespace hone::training
