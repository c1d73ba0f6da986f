// Further models of a run: frozen, loaded once.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "hone/recipe.h"
#include "hone/world.h"
#include "parallel/sharded_model.h"
#include "train/follower.h"

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

  // Of roles that follow the model (Needs::following): whether one of them is to move after this step; then it does.
  bool moves_after(std::int64_t step) const;
  void follow(std::int64_t step, Updater& updater);
  // What a checkpoint keeps of them, by role and weight; and where it is taken from when they are loaded, but for those
  // of `replaced` roles, whose models are others than the checkpoint's.
  std::vector<Slice> followed() const;
  void resumed_from(const std::filesystem::path& checkpoint, std::set<std::string> replaced);

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
  Follower& follower(const std::string& role) const;
  std::map<std::string, Following> following_;                          // by role
  mutable std::map<std::string, std::unique_ptr<Follower>> followers_;  // likewise
  std::filesystem::path moved_;     // what a checkpoint has kept of them; "": nothing
  std::set<std::string> replaced_;  // roles that it does not hold for
  bool for_numbers_alone_;
  World world_;
  mutable std::map<std::string, std::shared_ptr<const Model>> loaded_;  // by folder: one that two roles name is one
  mutable std::unique_ptr<parallel::ShardedModel> shares_;              // of the only one of them
  mutable std::optional<bool> shared_out_;
  mutable std::optional<std::filesystem::path> start_;
};

}  // namespace hone::training
