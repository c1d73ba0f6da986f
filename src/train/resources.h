// Further models of a run: loaded when it starts, frozen.
#pragma once

#include <map>
#include <memory>

#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

std::unique_ptr<Objective> make_objective(const Recipe& recipe);

class RunResources final : public Resources {
 public:
  RunResources(const Needs& needs, Precision precision);  // a folder that two roles name is loaded once
  const Model& model(const std::string& role) const override;

 private:
  std::map<std::string, std::shared_ptr<const Model>> models_;  // by role
};

}  // namespace hone::training
