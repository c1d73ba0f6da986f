// Going on from a checkpoint.
#include "train/restore.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/strings.h"
#include "data/files.h"
#include "nn/finite.h"
#include "ops/kernels.h"
#include "train/checkpoint.h"
#include "train/resume.h"
#include "train/trainable.h"

namespace hone::training {
namespace {

// What changed in the data since the checkpoint, by file; "" = nothing.
std::string data_difference(const nlohmann::json& before, const nlohmann::json& after) {
  std::vector<std::string> changed;
  for (const auto& [path, hash] : after.items())
    if (!before.contains(path) || before[path] != hash) changed.push_back(path);
  return changed.empty() ? "" : "; changed: " + join(changed, ", ");
}

bool any_of(const std::vector<config::Change>& changes, std::initializer_list<std::string_view> options) {
  return std::any_of(changes.begin(), changes.end(), [&](const config::Change& change) {
    return std::any_of(options.begin(), options.end(),
                       [&](std::string_view option) { return change.path.starts_with(option); });
  });
}

// Further models, as a reference, are read anew at each start. Returns the roles whose models are others now.
std::set<std::string> check_models(const RestoreFrom& parts, const RunState& state,
                                   const std::map<std::string, std::string>& hashes) {
  std::vector<std::string> changed, options;
  std::set<std::string> roles;
  bool refused = false;
  for (const auto& [role, hash] : hashes) {
    const auto before = state.models.find(role);
    if (before == state.models.end() || before->second == hash) continue;
    changed.push_back("the " + role), roles.insert(role);
    const std::string option = role == kBaseRole ? "model.path" : "objective." + role;
    options.push_back("--override " + option);
    refused |= !is_overridden(option, parts.options.override_keys);
  }
  if (changed.empty()) return roles;
  const std::string fact = fmt::format("{}: {} is not the model that the run has had so far", parts.recipe.run.folder,
                                       join(changed, ", and "));
  if (refused)
    throw Error(ErrorKind::checkpoint, fact)
        .hint(fmt::format("put that one back; {} goes on with the new one, --new starts afresh", join(options, " ")));
  log::warning("{}; goes on with the new one", fact);
  return roles;
}

// What a run's bits depend on besides its recipe, its data and how many threads and ranks it has.
std::map<std::string, std::string> computed_here(at::Device device) {
  std::map<std::string, std::string> by{{"LibTorch", TORCH_VERSION},
                                        {"device", c10::DeviceTypeName(device.type(), /*lower_case=*/true)}};
  if (device.is_cpu()) by["kernels"] = ops::chosen_kernels();
  return by;
}

// What is another, or missing on one of the sides.
std::string by_words(const std::map<std::string, std::string>& by, const std::map<std::string, std::string>& other) {
  std::vector<std::string> words;
  for (const auto& [name, what] : by)
    if (const auto found = other.find(name); found == other.end() || found->second != what)
      words.push_back(name + " " + what);
  return join(words, ", ");
}

void tell_other_arithmetic(const RestoreFrom& parts, const RunState& state) {
  const std::map<std::string, std::string> now = computed_here(parts.inputs.model->device());
  const std::map<std::string, std::string>& before = state.computed_by;
  if (before.empty() || before == now) return;
  const auto kernels = before.find("kernels"), kernels_now = now.find("kernels");
  const bool others = kernels != before.end() && kernels_now != now.end() && kernels->second != kernels_now->second;
  log::warning(
      "{}: computed by {} so far, now by {}: the last bits can differ from those of an unbroken run{}",
      parts.recipe.run.folder, by_words(before, now), by_words(now, before),
      others && ops::has_kernels(kernels->second) ? fmt::format("; HONE_KERNELS={} keeps them", kernels->second) : "");
}

void check_same(const RestoreFrom& parts, const RunState& state, const nlohmann::json& files,
                const std::string& data_hash) {
  const std::string& folder = parts.recipe.run.folder;
  if (state.tokenizer_hash != parts.inputs.tokenizer->fingerprint &&
      !is_overridden("tokenizer", parts.options.override_keys))
    throw Error(ErrorKind::data,
                fmt::format("{}: the tokenizer is not the one the run was trained with so far", folder))
        .hint("--override tokenizer --override data goes on with the new one, --new starts afresh");
  // A change of one of the options gives other tokens of the same files.
  const bool files_stay = !files.empty() && data_difference(state.data_files, files).empty();
  if (state.data_hash != data_hash && !is_overridden("data", parts.options.override_keys) &&
      !(files_stay && any_of(parts.changes, {"data."})))
    throw Error(ErrorKind::data, fmt::format("{}: the training data is not what the run was trained on so far{}",
                                             folder, data_difference(state.data_files, files)))
        .hint("--override data goes on with the new data, --new starts afresh");
  tell_other_arithmetic(parts, state);
  const int threads = at::get_num_threads(), ranks = parts.options.world.size();
  if (state.ranks != ranks)
    log::warning(
        "{}: made with {} so far, now {}: the run goes on with the same rows a step; the last bits can differ from "
        "those of an unbroken run",
        folder, counted(state.ranks, "rank"), ranks);
  else if (state.threads != 0 && state.threads != threads)
    log::warning(
        "{}: made with {} so far, now {}: the last bits can differ from those of an unbroken run; "
        "OMP_NUM_THREADS={} keeps them",
        folder, counted(state.threads, "thread"), threads, state.threads);
}

// Whether a stream gives again what the run has had of it, so far as one may look: what a pipe gives is gone.
bool goes_on(const RestoreFrom& parts, const RunState& state) {
  const std::vector<DataFile>& files = parts.recipe.data.train;
  const bool once =
      std::any_of(files.begin(), files.end(), [](const DataFile& file) { return data::is_read_once(file.path); });
  if (once || state.data_position.empty() || state.data_hash != parts.inputs.train->fingerprint()) return false;
  try {
    parts.inputs.train->read(parts.recipe.run.seed, parts.recipe.data.shuffle, state.rows, state.data_position);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return false;
  }
}

// A run's weights are its checkpoint's; below an adapter the base is read anew.
void tell_unread_model(const RestoreFrom& parts) {
  if (parts.inputs.adapter || !any_of(parts.changes, {"model.path", "model.load"})) return;
  log::warning("{}: model.path is of no use here: the run goes on from its own weights", parts.recipe.run.folder);
}

// The factor of the loss goes on as it is, where the run had one.
void tell_unused_factor(const RestoreFrom& parts, const RunState& state) {
  if (parts.recipe.trainer.precision != Precision::fp16 || state.loss_scale.is_unused()) return;
  if (any_of(parts.changes, {"trainer.loss_scale.start"}))
    log::warning("{}: trainer.loss_scale.start is of no use here: the run goes on with its own factor, {}",
                 parts.recipe.run.folder, state.loss_scale.factor);
}

// Where in the data the run goes on, if that is not simply where it stopped.
void tell_place(const RestoreFrom& parts, const RunState& state, bool other_data) {
  const std::string& folder = parts.recipe.run.folder;
  const Dataset* data = parts.inputs.train->as_dataset();
  const bool other_order = any_of(parts.changes, {"run.seed", "data.shuffle"});
  if (!data) {
    if (other_data)
      log::warning("{}: the new data are read from their beginning", folder);
    else if (other_order)
      log::warning(
          "{}: rows come in another order from the window on that is read: in it some come twice and others "
          "not at all",
          folder);
    return;
  }
  const std::int64_t all = data->epoch_rows(), steps = steps_of(parts.recipe, parts.inputs);
  const std::int64_t end = rows_until(steps, parts.recipe, parts.inputs);
  const std::string place =
      fmt::format("row {} of the {} of epoch {}", state.rows % all + 1, all, state.rows / all + 1);
  if (other_data)
    log::warning("{}: the new data are read from {} on, as if the {} so far had been of them", folder, place,
                 counted(state.rows, "row"));
  if (any_of(parts.changes, {"trainer.batch_", "trainer.accumulate", "trainer.step_rows"}))
    log::warning(
        "{}: with other batches the data go on behind the {} that were trained on, at {}; {} end at epoch {:.4g}",
        folder, counted(state.rows, "row"), place, counted(steps, "step"),
        static_cast<double>(end) / static_cast<double>(all));
  if (other_order)
    log::warning("{}: rows come in another order from {} on: in this epoch some come twice and others not at all",
                 folder, place);
}

// A new run that begins with what another one's optimizer knows. Its corrections of early steps go on as well.
void take_optimizer(const RestoreFrom& parts, RunState& state, Updater& updater) {
  const Folder source = Env::process().open_folder(parts.inputs.source);
  if (!has_optimizer(source))
    throw Error(ErrorKind::checkpoint,
                fmt::format("model.load.optimizer: {}: no optimizer's state there; expected a checkpoint of a run",
                            source.path().string()));
  during("taking the optimizer's state of " + source.path().string(), [&] {
    const RunState its = load_state(source);
    const SavedOptions options = saved_options(source);
    state.updates = its.updates, state.own_updates = its.own_updates, state.trained_updates = its.trained_updates;
    keep_updates(options.trainable, parts.recipe.model.trainable, *parts.inputs.model, state);
    UpdaterOfFile what{.other_weights = !parts.recipe.model.load.strict, .other_average = true};
    if (what.other_weights)
      what.optimizer_before = options.optimizer, what.optimizer_now = *write_recipe(parts.recipe).find("optimizer");
    begin_young(load_updater(source, updater, what), state);
  });
}

// Tensors and counts of a checkpoint of the run, as far as the recipe that it was made with says the same.
RunState take_checkpoint(const RestoreFrom& parts, const Folder& checkpoint, Updater& updater) {
  RunState state = load_state(checkpoint);
  load_tensors(checkpoint, state.callbacks);
  const bool other_optimizer = any_of(parts.changes, {"optimizer."});
  const bool other_trainable = any_of(parts.changes, {"model.trainable"});
  UpdaterOfFile what{other_trainable || other_optimizer, parts.inputs.adapter.has_value(),
                     any_of(parts.changes, {"trainer.ema"})};
  if (other_trainable || other_optimizer) {
    const SavedOptions options = saved_options(checkpoint);
    if (other_optimizer)
      what.optimizer_before = options.optimizer, what.optimizer_now = *write_recipe(parts.recipe).find("optimizer");
    if (other_trainable)
      keep_updates(options.trainable, parts.recipe.model.trainable, *parts.inputs.model, state);
  }
  begin_young(load_updater(checkpoint, updater, what), state);
  return state;
}

}  // namespace

RunState restore(const RestoreFrom& parts, Updater& updater) {
  const bool stream = parts.inputs.train->as_dataset() == nullptr;
  const nlohmann::json files = stream ? nlohmann::json::object() : file_hashes(parts.recipe);
  const std::string data_hash = parts.inputs.train->fingerprint();
  const std::map<std::string, std::string> models = parts.resources.hashes();
  RunState state;
  state.step = parts.begin.step, state.updates = parts.begin.updates, state.tokens = parts.begin.tokens;
  state.skipped_steps = parts.begin.skipped_steps, state.data_position = parts.begin.data_position;
  state.rows = parts.begin.rows, state.own_updates = parts.begin.own_updates;
  if (parts.from) {
    const Folder checkpoint = parts.run.checkpoints().open(*parts.from);
    during("resuming from " + checkpoint.path().string(),
           [&] { state = take_checkpoint(parts, checkpoint, updater); });
    check_same(parts, state, files, data_hash);
    parts.resources.resumed_from(checkpoint.path(), check_models(parts, state, models));
    if (state.rows < 0) state.rows = rows_before(checkpoint, state.step);
    const bool other_data = is_overridden("data", parts.options.override_keys) && !(stream && goes_on(parts, state));
    if (other_data) state.data_position.clear();  // of a stream: it begins at its beginning
    tell_unread_model(parts);
    tell_unused_factor(parts, state);
    if (!parts.options.replay) tell_place(parts, state, other_data && (stream || state.data_hash != data_hash));
  }
  std::erase_if(state.sets_due, [&](const std::string& name) {  // of an evaluation that a signal had cut short
    return std::none_of(parts.inputs.evals.begin(), parts.inputs.evals.end(),
                        [&](const EvalSet& set) { return set.name == name; });
  });
  if (parts.inputs.evals.empty()) state.evaluation_due = false;
  if (!parts.from && parts.recipe.model.load.optimizer) take_optimizer(parts, state, updater);
  for (const config::Change& change : parts.changes)
    state.changes.push_back(
        {{"step", state.step}, {"option", change.path}, {"before", change.before}, {"after", change.after}});
  state.finished.clear();
  state.data_files = files;
  state.threads = at::get_num_threads();
  state.ranks = parts.options.world.size();
  state.computed_by = computed_here(parts.inputs.model->device());
  state.data_hash = data_hash;
  state.models = models;
  state.tokenizer_hash = parts.inputs.tokenizer->fingerprint;
  const std::filesystem::path& source = parts.inputs.source;
  if (!state.source_types) state.source_types = source_types(source);
  const std::string origin = source.empty() ? "the fresh model" : source.string();
  nn::check_weights_finite(*parts.inputs.model, origin);
  if (updater.sharded() && !updater.weights_finite())
    throw Error(ErrorKind::not_finite, origin + ": some of its weights are infinite or not a number");
  return state;
}

}  // namespace hone::training
