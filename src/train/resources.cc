// Models by role.
#include "train/resources.h"

#include <fmt/format.h>

#include <set>

#include "base/hash.h"
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

// As the run began with it: fill_weights() of a new run, in the type that is computed in. folder: "", fresh weights.
std::shared_ptr<Model> load_start(const Recipe& recipe, const fs::path& folder, const Model& trained,
                                  const Prepare& prepare) {
  const Precision precision = recipe.trainer.precision;
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
    return folder.empty() ? load_start(recipe_, start(), trained_, [](Model&) {})
                          : load_frozen_model(find_model(folder), precision, device());
  const Prepare share = [&](Model& model) { parallel::share_out(model, world_, /*learns=*/false); };
  const std::shared_ptr<Model> model =
      folder.empty() ? load_start(recipe_, start(), trained_, share)
                     : load_prepared(find_model_folder(folder), precision, device(), share);
  shares_ = std::make_unique<parallel::ShardedModel>(*model, world_, hub::type_of(precision), std::nullopt);
  return model;
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
