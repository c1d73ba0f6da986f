// What `hone inspect` shows: each kind of thing as one JSON report, which is also what the plain form prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/read_data.h"
#include "cli/recipe.h"
#include "hone/data.h"

namespace hone::cli {

// A folder: sizes, weights, tokenizer. A recipe: its weights as the run will have them, with totals by optimizer.
nlohmann::ordered_json inspect_model(const std::string& where);
nlohmann::ordered_json inspect_adapter(const std::string& where);                 // rank, base, what each module has
nlohmann::ordered_json inspect_checkpoint(const std::string& folder, bool full);  // full: every byte against its hash
nlohmann::ordered_json inspect_run(const std::string& folder, bool full);
nlohmann::ordered_json inspect_diff(const std::string& before, const std::string& after);
// show: with each record's tokens.
nlohmann::ordered_json inspect_data(const DataToInspect& given, std::int64_t records, bool show);

struct InspectedRecipe {
  nlohmann::ordered_json report;
  std::string text;  // the same for people
};
// where: recipe files, run folders or checkpoints, one or two. Options are sorted by path, those of lists by their
// number; "from" says where a value was given. Error(usage, config).
InspectedRecipe inspect_recipe(const std::vector<std::string>& where, const Invocation& call,
                               const RecipeFlags& flags);

// Objects as indented "name  value" lines, lists of objects as tables.
std::string plain_text(const nlohmann::ordered_json& report);
// The first records with the tokens that carry loss in [brackets], for people; full: the whole of long ones, too.
std::string marked_records(const Dataset& data, const Tokenizer& tokenizer, std::int64_t records, bool full);

}  // namespace hone::cli
