// What a folder of sentence-transformers says of how its model embeds, as defaults of a recipe.
#pragma once

#include "hone/recipe.h"

namespace hone::training {

// Of objective embedding: pooling, normalize and prompts that the recipe leaves open, where model.path is such a
// folder. A folder that is not there is somebody else's matter.
void take_sentence_defaults(Recipe& recipe);

}  // namespace hone::training
