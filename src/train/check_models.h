// Whether the models that a recipe names go with its data, and with each other.
#pragma once

#include <string>

#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

// Error(config): its documents, with the answers that come behind them, are longer than what the model has learned.
void check_lengths(const Model& model, const std::string& who, const Needs& needs, const Recipe& recipe);
// What a run's other models are compared with.
struct RunsOwn {
  const Model& model;
  const Tokenizer& tokenizer;
  bool in_memory = false;  // the model was given
};
// Error(config): one of Needs::models is not as it has to be. Nothing is loaded.
void check_other_models(const Needs& needs, const Recipe& recipe, const RunsOwn& own);

}  // namespace hone::training
