// Further models of a run: frozen, loaded once.
#pragma once

#include <map>
#include <memory>

#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

// The name of an adapter as the run found it, where training goes on from it.
inline constexpr const char* kStartAdapter = "start";

std::unique_ptr<Objective> make_objective(const Recipe& recipe);

class RunResources final : public Resources {
 public:
  // Nothing is loaded yet. The recipe and the model that is trained must outlive it.
  RunResources(const Needs& needs, const Recipe& recipe, const Model& trained);
  RoleModel model(const std::string& role) const override;
  void load_all() const;
  void let_go() { loaded_.clear(); }
  // Of each role a hash of what its model is: of its files, or of what makes it. Reads the files.
  std::map<std::string, std::string> hashes() const;

 private:
  bool is_below_adapters(const std::string& folder) const;
  const Recipe& recipe_;
  const Model& trained_;
  std::map<std::string, std::string> folders_;                          // by role
  mutable std::map<std::string, std::shared_ptr<const Model>> loaded_;  // by folder: one that two roles name is one
};

}  // namespace hone::training
