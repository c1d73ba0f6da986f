// Learning rates that some of an adapter's factors have of their own.
#pragma once

#include "hone/recipe.h"

namespace hone::training {

// adapter.loraplus_lr_embedding, where the recipe says it. REQUIRES: the adapter is there. Error(config): no table has
// one, or the optimizer has no learning rate that this could stand beside.
void set_table_rates(Model& model, const Recipe& recipe);

}  // namespace hone::training
