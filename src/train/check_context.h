// Whether several ranks can compute a batch together: parallel.context.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hone/adapter.h"
#include "hone/model.h"
#include "hone/recipe.h"

namespace hone::training {

// Error(config): parallel.context does not go with so many ranks, or not with the objective. Nothing is loaded.
void check_context(const Recipe& recipe, int ranks);

// The model that is trained with its adapter, which is put on these modules.
struct ContextUse {
  const Model& model;
  const std::optional<LoraConfig>& adapter;
  const std::vector<std::string>& adapted;
};
// Error(config): these or one of the objective's other models are not such. Needs no weights. REQUIRES: check_context()
// let the recipe pass.
void check_context_models(const Recipe& recipe, int ranks, const ContextUse& use);

}  // namespace hone::training
