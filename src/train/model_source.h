// Where the weights are that a recipe starts from.
#pragma once

#include <filesystem>

#include "hone/recipe.h"
#include "io/checkpoints.h"

namespace hone::training {

// The folder that holds config.json: of model.path, and of a run there the checkpoint that model.load names.
// Error(checkpoint): there is none.
std::filesystem::path model_source(const ModelSection& model);

// What a run knows to be its best checkpoint, as its newest whole one says. Error(checkpoint): no evaluation has said
// it, or it is no longer there or damaged.
io::Checkpoint best_checkpoint(const io::Checkpoints& checkpoints);

// config.json there with what the recipe changes in it; `say` names each change.
config::Node with_changes(config::Node config, const ModelSection& model, bool say);
// `made`: of the model that was built so, as it lies in `where`. Error(config): one of the changes is none, as hone has
// no such option.
void check_changes(const ModelSection& model, const config::Node& made, const std::string& where);

}  // namespace hone::training
