// Models by role.
#include "train/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/progress.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/hash.h"
#include "hub/memory.h"
#include "hub/packed/find_packed.h"
#include "nn/freeze.h"
#include "tensor/dtype.h"
#include "train/model_source.h"
#include "train/ranks.h"
#include "train/save_types.h"
#include "train/state.h"

namespace hone::training {
namespace {

namespace fs = std::filesystem;

// What becomes of a model between its making and its filling.
using Prepare = std::function<void(Model&)>;

// As the run began with it: fill_weights() of a new run. folder: "", fresh weights.
std::shared_ptr<Model> load_start(const Recipe& recipe, const fs::path& folder, const Model& trained,
                                  Precision precision, const Prepare& prepare) {
  const bool fresh = folder.empty();
  std::shared_ptr<Model> model = build_model(trained.hf_config(), fresh ? "model" : folder / "config.json");
  nn::freeze(*model);
  model->set_device(trained.device());
  prepare(*model);
  std::map<std::string, QuantizedAs> held;
  trained.each_weight([&](const std::string& name, const Weight& weight) { held[name] = weight.held_as(); });
  model->each_weight([&](const std::string& name, Weight& weight) { weight.set_held_as(held.at(name)); });
  if (fresh)
    init_weights(*model, recipe.run.seed, precision);
  else
    load_weights(*model, folder, precision,
                 FreshWeights{recipe.run.seed, /*other_labels=*/false, !recipe.model.load.strict});
  if (!recipe.adapter.path.empty()) {
    load_adapter(*model, find_adapter_folder(recipe.adapter.path), {.precision = precision});
    nn::freeze(*model);
  }
  return model;
}

// Of a folder without an adapter.
std::shared_ptr<Model> load_prepared(const fs::path& folder, Precision precision, at::Device device,
                                     const Prepare& prepare) {
  const std::string file = (folder / "config.json").string();
  std::shared_ptr<Model> model = build_model(config::read_file(file), file);
  nn::freeze(*model);
  model->set_device(device);
  prepare(*model);
  load_weights(*model, folder, precision);
  return model;
}

// Whether all weights lie in the files as they are computed with: ranks of one machine then share the files' pages.
bool is_mapped(const fs::path& folder, Precision precision) {
  return source_types(folder) == SourceTypes{{"*", safetensors_name(hub::type_of(precision))}} &&
         !hub::holds_packed(folder);
}

}  // namespace

RunResources::RunResources(const Needs& needs, const Recipe& recipe, const Model& trained, World world)
    : recipe_(recipe),
      trained_(trained),
      folders_(needs.models),
      following_(needs.following),
      for_numbers_alone_(needs.models_for_numbers_alone),
      world_(std::move(world)) {}

RunResources::~RunResources() = default;

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
  if (following_.contains(role)) return {follower(role).model()};
  const std::string& folder = found->second;
  if (is_below_adapters(folder)) return {trained_, recipe_.adapter.path.empty() ? "" : kStartAdapter};
  std::shared_ptr<const Model>& model = loaded_[folder];
  if (!model) model = during("loading the " + role, [&] { return load(folder); });
  return {*model};
}

const fs::path& RunResources::start() const {
  if (!start_) start_ = recipe_.model.path.empty() ? fs::path() : model_source(recipe_.model);
  return *start_;
}

std::shared_ptr<const Model> RunResources::load(const std::string& folder) const {
  const Precision precision = recipe_.trainer.precision;
  if (!is_shared_out())
    return folder.empty() ? load_start(recipe_, start(), trained_, precision, [](Model&) {})
                          : load_frozen_model(find_model(folder), precision, device());
  const Prepare share = [&](Model& model) { parallel::share_out(model, world_, /*learns=*/false); };
  const std::shared_ptr<Model> model = folder.empty()
                                           ? load_start(recipe_, start(), trained_, precision, share)
                                           : load_prepared(find_model_folder(folder), precision, device(), share);
  shares_ = std::make_unique<parallel::ShardedModel>(*model, world_, hub::type_of(precision), std::nullopt);
  return model;
}

// A model of its own, whoever else names its folder.
Follower& RunResources::follower(const std::string& role) const {
  std::unique_ptr<Follower>& made = followers_[role];
  if (made) return *made;
  during("loading the " + role, [&] {
    const std::string& folder = folders_.at(role);
    const Precision run = recipe_.trainer.precision, wide = Follower::wide(run);
    std::shared_ptr<Model> model = folder.empty() ? load_start(recipe_, start(), trained_, wide, [](Model&) {})
                                                  : load_frozen_model(find_model(folder), wide, device());
    check_can_follow(*model, trained_, following_.at(role));
    made = std::make_unique<Follower>(std::move(model), following_.at(role), run);
    if (!moved_.empty() && !replaced_.contains(role)) made->restore(Safetensors(moved_), role + ".");
  });
  return *made;
}

bool RunResources::moves_after(std::int64_t step) const {
  return std::any_of(following_.begin(), following_.end(),
                     [&](const auto& role) { return step % role.second.every == 0; });
}

void RunResources::follow(std::int64_t step, Updater& updater) {
  for (const auto& [role, how] : following_)
    if (step % how.every == 0) follower(role).follow(trained_, updater);
}

std::vector<Slice> RunResources::followed() const {
  std::vector<Slice> all;
  for (const auto& [role, follower] : followers_)
    follower->each([&, &its = role](Slice slice) {
      slice.name = its + "." + slice.name;
      all.push_back(std::move(slice));
    });
  return all;
}

void RunResources::resumed_from(const fs::path& checkpoint, std::set<std::string> replaced) {
  replaced_ = std::move(replaced);
  const fs::path file = checkpoint / "state" / kFollowingFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  if (!following_.empty())
    moved_ = file;
  else
    log::warning("{}: of no use any more: the run goes on with a reference that does not move", file.string());
}

// Only where there is one: of several all ranks would have to go through them in one order.
bool RunResources::is_shared_out() const {
  if (shared_out_) return *shared_out_;
  std::set<std::string> folders;
  for (const auto& [role, folder] : folders_)
    if (!is_below_adapters(folder)) folders.insert(folder);
  shared_out_ =
      for_numbers_alone_ && is_sharded(recipe_, world_) && folders.size() == 1 && recipe_.adapter.path.empty() &&
      !trained_.unpacking();
  if (!*shared_out_) return false;
  if (const std::string where = folders.begin()->empty() ? start().string() : *folders.begin(); !where.empty()) {
    const ModelPlace place = find_model(where);
    const bool stays_in_file = device().is_cpu() && is_mapped(place.folder, recipe_.trainer.precision);
    shared_out_ = place.adapter.empty() && !stays_in_file;
  }
  return *shared_out_;
}

void RunResources::together(const std::function<void()>& work) const {
  if (!is_shared_out()) return work ? work() : void();
  load_all();
  const std::int64_t before = shares_->passes();
  work ? work() : shares_->idle_pass(false);
  if (const std::int64_t passes = shares_->passes() - before; passes != 1)
    throw Error(ErrorKind::bug, fmt::format("objective {}: goes {} times through a model for a batch's documents; with "
                                            "parallel.fsdp once is expected",
                                            recipe_.objective.type, passes));
  shares_->release_all();
}

void RunResources::let_go() {
  shares_.reset();
  loaded_.clear();
  followers_.clear();
}

void RunResources::load_all() const {
  for (const auto& [role, folder] : folders_) model(role);
}

std::map<std::string, std::string> RunResources::hashes() const {
  std::map<std::string, std::string> all;
  if (!recipe_.adapter.type.empty()) all[kBaseRole] = hub::hash_of_folder(start());
  for (const auto& [role, folder] : folders_) {
    if (folder.empty() && !recipe_.adapter.type.empty()) {  // the base, which is compared already, and an adapter
      if (!recipe_.adapter.path.empty()) all[role] = hub::hash_of_folder(find_adapter_folder(recipe_.adapter.path));
      continue;
    }
    const fs::path where = folder.empty() ? start() : find_model_folder(folder);
    all[role] = where.empty() ? hash128_hex(config::to_json(trained_.hf_config()) + std::to_string(recipe_.run.seed))
                              : hub::hash_of_folder(where);
  }
  return all;
}

}  // namespace hone::training
