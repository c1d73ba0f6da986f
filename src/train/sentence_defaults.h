// What a folder of sentence-transformers says of how its model embeds, as defaults of a recipe.
#pragma once

#include <map>
#include <string>

#include "hone/model.h"
#include "hone/recipe.h"
#include "train/inputs.h"

namespace hone::training {

// Of objectives embedding, sparse_embedding and late_interaction: pooling, normalize and prompts, or what makes sparse
// vectors or those of tokens, that the recipe leaves open, where model.path is such a folder. A folder that is not
// there is somebody else's matter.
void take_sentence_defaults(Recipe& recipe);
// Of texts that an objective puts together itself: how long they may be, where the recipe does not say it.
void take_pair_length(Recipe& recipe);

// Objective::folder_files() of this run's checkpoints; with what the folder that it began with says besides. Of a
// cross-encoder its files, with the length of the run's pairs.
std::map<std::string, std::string> files_beside(const Recipe& recipe, const Inputs& inputs, const Model& model);

}  // namespace hone::training
