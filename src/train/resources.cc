// Models by role.
#include "train/resources.h"

#include <fmt/format.h>

#include "base/progress.h"
#include "hone/hub.h"
#include "hone/registry.h"

namespace hone::training {
namespace {

std::shared_ptr<const Model> load_frozen(const std::string& folder, Precision precision) {
  std::shared_ptr<Model> model = load_model(folder, precision);
  model->each_weight([](const std::string&, Weight& weight) { weight.set_trainable(false); });
  return model;
}

}  // namespace

std::unique_ptr<Objective> make_objective(const Recipe& recipe) {
  return registries().objectives.make(recipe.objective);
}

RunResources::RunResources(const Needs& needs, Precision precision) {
  std::map<std::string, std::shared_ptr<const Model>> by_folder;
  for (const auto& [role, folder] : needs.models) {
    std::shared_ptr<const Model>& model = by_folder[folder];
    if (!model) model = during("loading the " + role, [&] { return load_frozen(folder, precision); });
    models_[role] = model;
  }
}

const Model& RunResources::model(const std::string& role) const {
  const auto found = models_.find(role);
  if (found == models_.end())
    throw Error(ErrorKind::bug, fmt::format("a model for the role \"{}\" is not among what the objective needs", role));
  return *found->second;
}

}  // namespace hone::training
