// Further models of a run: frozen, loaded once.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "hone/objective.h"
#include "hone/recipe.h"
#include "hone/world.h"
#include "parallel/sharded_model.h"

namespace hone::training {

// The name of an adapter as the run found it, where training goes on from it.
inline constexpr const char* kStartAdapter = "start";

class RunResources final : public Resources {
 public:
  // Nothing is loaded yet. The recipe and the model that is trained must outlive it. Ranks that share the trained model
  // out (parallel.fsdp) do so with these, but for those that stay mapped from their file.
  RunResources(const Needs& needs, const Recipe& recipe, const Model& trained, World world);
  ~RunResources() override;
  RoleModel model(const std::string& role) const override;
  at::Device device() const { return trained_.device(); }  // of all of them
  void load_all() const;
  void let_go();

  // Whether ranks have each a share of the model. Then all of them go through it at the same time: `work` does so once;
  // no work: this rank has none, and others have.
  bool is_shared_out() const;
  void together(const std::function<void()>& work) const;

  // Of each role a hash of what its model is: of its files, or of what makes it. Reads the files.
  std::map<std::string, std::string> hashes() const;

 private:
  bool is_below_adapters(const std::string& folder) const;
  const std::filesystem::path& start() const;  // where the run's own weights were when it began; "": they were fresh
  const Recipe& recipe_;
  const Model& trained_;
  std::map<std::string, std::string> folders_;                          // by role
  std::shared_ptr<const Model> load(const std::string& folder) const;
  bool for_numbers_alone_;
  World world_;
  mutable std::map<std::string, std::shared_ptr<const Model>> loaded_;  // by folder: one that two roles name is one
  mutable std::unique_ptr<parallel::ShardedModel> shares_;              // of the only one of them
  mutable std::optional<bool> shared_out_;
  mutable std::optional<std::filesystem::path> start_;
};

}  // namespace hone::training
