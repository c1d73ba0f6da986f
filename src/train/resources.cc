// Models by role.
#include "train/resources.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/progress.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/hash.h"
#include "train/state.h"

namespace hone::training {
namespace {

namespace fs = std::filesystem;

void freeze(Model& model) {
  model.each_weight([](const std::string&, Weight& weight) {
    if (!weight.is_buffer()) weight.set_trainable(false);
  });
}

// As the run began with it: fill_weights() of a new run, in the type that is computed in.
std::shared_ptr<Model> load_start(const Recipe& recipe, const Model& trained) {
  const Precision precision = recipe.trainer.precision;
  const bool fresh = recipe.model.path.empty();
  const fs::path folder = fresh ? fs::path() : find_model_folder(recipe.model.path);
  std::shared_ptr<Model> model = build_model(trained.hf_config(), fresh ? "model" : folder / "config.json");
  freeze(*model);
  if (fresh)
    init_weights(*model, recipe.run.seed, precision);
  else
    load_weights(*model, folder, precision, FreshHead{recipe.run.seed});
  if (!recipe.adapter.path.empty()) {
    load_adapter(*model, find_adapter_folder(recipe.adapter.path), {.precision = precision});
    freeze(*model);
  }
  return model;
}

std::shared_ptr<Model> load_other(const std::string& where, Precision precision) {
  std::shared_ptr<Model> model = load_model(where, precision);
  freeze(*model);
  return model;
}

}  // namespace

std::unique_ptr<Objective> make_objective(const Recipe& recipe) {
  return registries().objectives.make(recipe.objective);
}

RunResources::RunResources(const Needs& needs, const Recipe& recipe, const Model& trained)
    : recipe_(recipe), trained_(trained), folders_(needs.models) {}

bool RunResources::is_below_adapters(const std::string& folder) const {
  if (!folder.empty() || !trained_.has_adapters()) return false;
  bool whole = true;  // of modules that are trained with the adapter nothing below it is left
  trained_.each_weight([&](const std::string&, const Weight& weight) { whole &= !weight.trainable(); });
  return whole;
}

RoleModel RunResources::model(const std::string& role) const {
  const auto found = folders_.find(role);
  if (found == folders_.end())
    throw Error(ErrorKind::bug, fmt::format("a model for the role \"{}\" is not among what the objective needs", role));
  const std::string& folder = found->second;
  if (is_below_adapters(folder)) return {trained_, recipe_.adapter.path.empty() ? "" : kStartAdapter};
  std::shared_ptr<const Model>& model = loaded_[folder];
  if (!model)
    model = during("loading the " + role, [&] {
      return folder.empty() ? load_start(recipe_, trained_) : load_other(folder, recipe_.trainer.precision);
    });
  return {*model};
}

void RunResources::load_all() const {
  for (const auto& [role, folder] : folders_) model(role);
}

std::map<std::string, std::string> RunResources::hashes() const {
  std::map<std::string, std::string> all;
  if (!recipe_.adapter.type.empty()) all[kBaseRole] = hub::hash_of_folder(find_model_folder(recipe_.model.path));
  for (const auto& [role, folder] : folders_) {
    if (folder.empty() && !recipe_.adapter.type.empty()) {  // the base, which is compared already, and an adapter
      if (!recipe_.adapter.path.empty()) all[role] = hub::hash_of_folder(find_adapter_folder(recipe_.adapter.path));
      continue;
    }
    const std::string& where = folder.empty() ? recipe_.model.path : folder;
    all[role] = where.empty() ? hash128_hex(config::to_json(trained_.hf_config()) + std::to_string(recipe_.run.seed))
                              : hub::hash_of_folder(find_model_folder(where));
  }
  return all;
}

}  // namespace hone::training
