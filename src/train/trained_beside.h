// Models that are trained with a run's model and have files of their own (Needs::trained_beside).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hone/hub.h"
#include "hone/objective.h"
#include "hone/recipe.h"
#include "hub/save.h"

namespace hone::training {

// Where the weights of each are ("": fresh ones), and whether they are of a head for other labels than a score's.
struct BesideSource {
  std::filesystem::path folder;
  bool other_labels = false;
};
using BesideSources = std::map<std::string, BesideSource>;

// What they begin as. config: the run's model's config.json, in `file`; source: where its weights are; checkpoint: of a
// run that is resumed, "": a new run; in_memory: the model was given.
struct BesideFrom {
  const Recipe& recipe;
  const Needs& needs;
  const std::filesystem::path& checkpoint;
  const config::Node& config;
  const std::string& file;
  const std::filesystem::path& source;
  const Tokenizer& tokenizer;
  bool in_memory = false;
};
// Puts them beside the model, on the meta device. Throws Error(config): one that cannot be had.
BesideSources add_beside(const BesideFrom& from, Model& model);
// Their weights; types: in which they are read from a folder.
void fill_beside(Model& model, const BesideSources& sources, std::uint64_t seed,
                 const std::function<WeightTypes(const std::filesystem::path&)>& types);

// The same on the meta device, put beside another model.
void add_meta_beside(const Model& model, WeightTypes types, Model& twin);

// What stands beside the weights of each in its folder of a checkpoint.
struct BesideFiles {
  std::string name;
  const SavedModule* module = nullptr;
  hub::ModelFiles files = {};
};
std::vector<BesideFiles> files_of_beside(const Model& model, const Tokenizer* tokenizer, at::ScalarType type);

}  // namespace hone::training
