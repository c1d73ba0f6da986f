// A recipe put together from layers: its file, other files, the environment, the command line.
#pragma once

#include <string>
#include <string_view>

#include "hone/recipe.h"

namespace hone::training {

// Puts a layer on top of `root`. What the layer excludes gives way (both of such a pair in one layer: the recipe's
// checks say that they do not go together), and where it sets an option of a section that `root` has as a plain value,
// as `run: out`, that value stays. Options under their old names get the new ones, with notes. source: where the
// overrides come from, for errors; empty: each names itself.
void put_over(config::Node& root, const config::Node& layer, config::Problems& problems);
void put_over(config::Node& root, const RecipeOverrides& overrides, std::string_view source,
              config::Problems& problems);

// What is written short becomes what it is short for: of data.eval and data.test one source is a set of that one, and
// anywhere a section where a list of sections is expected a list of one. is_layer: numbers reach into what is below it.
void write_out(config::Node& root, bool is_layer = false);

// As a file that reads as the recipe does: what looks like a reference is text.
std::string recipe_file(const Recipe& recipe);

}  // namespace hone::training
