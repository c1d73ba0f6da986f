// Checkpoints of a run: when, what when one fails, and going on from one.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "nn/finite.h"
#include "train/evaluate.h"
#include "train/trainer.h"

namespace hone::training {
namespace {

// What changed in the data since the checkpoint, by file; "" = nothing.
std::string data_difference(const nlohmann::json& before, const nlohmann::json& after) {
  std::vector<std::string> changed;
  for (const auto& [path, hash] : after.items())
    if (!before.contains(path) || before[path] != hash) changed.push_back(path);
  return join(changed, ", ");
}

bool has(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end() ||
         std::find(keys.begin(), keys.end(), "all") != keys.end();
}

}  // namespace

void Trainer::restore() {
  const nlohmann::json files = file_hashes(recipe_);
  const std::string data_hash = parts_.inputs.train->fingerprint();
  if (parts_.from) {
    const Folder checkpoint = parts_.run.checkpoints().open(*parts_.from);
    during("resuming from " + checkpoint.path().string(), [&] {
      state_ = load_state(checkpoint);
      load_updater(checkpoint, *updater_);
    });
    if (state_.tokenizer_hash != parts_.inputs.tokenizer->fingerprint &&
        !has(parts_.options.override_keys, "tokenizer"))
      throw Error(ErrorKind::data,
                  fmt::format("{}: the tokenizer is not the one the run was trained with so far", folder_))
          .hint("--override tokenizer --override data goes on with the new one, --new starts afresh");
    if (state_.data_hash != data_hash && !has(parts_.options.override_keys, "data"))
      throw Error(ErrorKind::data,
                  fmt::format("{}: the training data is not what the run was trained on so far; changed: {}", folder_,
                              data_difference(state_.data_files, files)))
          .hint("--override data goes on with the new data, --new starts afresh");
    if (const int threads = at::get_num_threads(); state_.threads != 0 && state_.threads != threads)
      log::warning(
          "{}: made with {} so far, now {}: the last bits can differ from those of an unbroken run; "
          "OMP_NUM_THREADS={} keeps them",
          folder_, counted(state_.threads, "thread"), threads, state_.threads);
    hooks_.restore(state_);
    saved_step_ = state_.step;
    saved_name_ = parts_.from->name;
    log::info("{}: resuming at step {} of {} from {}", folder_, state_.step, steps_, parts_.from->name);
  }
  for (const config::Change& change : parts_.changes)
    state_.changes.push_back(
        {{"step", state_.step}, {"option", change.path}, {"before", change.before}, {"after", change.after}});
  state_.finished.clear();
  state_.data_files = files;
  state_.threads = at::get_num_threads();
  state_.data_hash = data_hash;
  state_.tokenizer_hash = parts_.inputs.tokenizer->fingerprint;
  if (!state_.source_types) state_.source_types = source_types(parts_.inputs.source);
  nn::check_weights_finite(model_, parts_.inputs.source.empty() ? "the fresh model" : parts_.inputs.source.string());
  if (state_.step >= steps_ && !state_.evaluation_due)
    log::warning("{}: already at step {}, nothing to train", folder_, state_.step);
}

bool Trainer::save_due() {
  const SaveSection& save = recipe_.trainer.save;
  if (done()) return false;  // finish() saves
  const bool by_time = save.every_minutes > 0 && monotonic_seconds() - last_save_ >= 60 * save.every_minutes;
  const bool by_signal = parts_.options.handle_signals && StopSignal::take_save_request();
  return due(save.every) || by_time || by_signal || save_wanted_;
}

void Trainer::maybe_save() {
  save_wanted_ = false;
  last_save_ = monotonic_seconds();
  try {
    save();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    report_failed_save(error);
  }
}

void Trainer::report_failed_save(const Error& error) {
  failed_saves_ += 1;
  std::string space;
  try {
    space = fmt::format("needs {}, free {}; ", human_size(checkpoint_bytes()),
                        human_size(parts_.run.folder().env().free_bytes(parts_.run.path())));
  } catch (const Error&) {
    space.clear();  // the disk that failed may not answer that either
  }
  const std::string kept = saved_step_ < 0 ? "no checkpoint yet" : fmt::format("kept step {}", saved_step_);
  log::error("checkpoint of step {} failed: {}; {}{}; training continues", state_.step, error.what(), space, kept);
}

void Trainer::save() {
  const Stopwatch watch;
  const Best best = state_.best;
  if (evaluated_ && (best.step < 0 || *evaluated_ < best.value))
    state_.best = {main_metric(parts_.inputs.evals), *evaluated_, state_.step};
  hooks_.store(state_);
  std::uint64_t bytes = 0;
  try {
    bytes = save_checkpoint(parts_.run, state_, checkpoint_parts());
  } catch (...) {
    state_.best = best;
    throw;
  }
  saved_step_ = state_.step;
  saved_name_ = io::step_name(state_.step);
  log::info("step {}: saved {} ({}, {})", state_.step,
            (std::filesystem::path(folder_) / "checkpoints" / saved_name_).string(), human_size(bytes),
            human_duration(watch.seconds()));
  if (watch.seconds() * 1.5 > recipe_.trainer.save.grace_seconds && watch.seconds() > slowest_save_)
    log::warning("a save takes {}: it may not fit between SIGTERM and SIGKILL (trainer.save.grace_seconds)",
                 human_duration(watch.seconds()));
  slowest_save_ = std::max(slowest_save_, watch.seconds());
  tidy_checkpoints();
  hooks_.saved(view(), saved_name_);
}

// The checkpoint is committed: nothing here makes it a failed save.
void Trainer::tidy_checkpoints() {
  parts_.run.note_checkpoint();
  parts_.run.link("latest", saved_name_);
  if (state_.best.step == state_.step) parts_.run.link("best", saved_name_);
  try {
    parts_.run.checkpoints().retain(recipe_.trainer.save.keep, {state_.best.step});
  } catch (const Error& error) {
    log::warning("older checkpoints are not removed: {}", error.what());
  }
}

// How many checkpoints the disk must hold besides those that are there: they make room for each other.
std::int64_t Trainer::checkpoints_to_come() {
  const SaveSection& save = recipe_.trainer.save;
  std::int64_t most = 2;
  if (save.keep > 0) {
    most = save.keep + 1;
    for (const io::Checkpoint& one : parts_.run.checkpoints().scan(io::Verify::sizes)) most -= one.whole() ? 1 : 0;
  }
  if (save.every_minutes > 0) return std::max<std::int64_t>(1, most);
  const std::int64_t left = save.every > 0 ? (steps_ - 1) / save.every - state_.step / save.every : 0;
  return std::clamp<std::int64_t>(left + 1, 1, std::max<std::int64_t>(1, most));  // and the one at the end
}

std::uint64_t Trainer::checkpoint_bytes() { return training::checkpoint_bytes(checkpoint_parts()); }

CheckpointParts Trainer::checkpoint_parts() {
  const TrainerSection& t = recipe_.trainer;
  CheckpointParts parts{model_, *updater_, files_, config_yaml_, *save_types_};
  parts.steps = steps_;
  parts.epoch = epoch();
  parts.epochs = loader_->epoch_at(steps_);
  parts.log_every = t.log_every;
  parts.eval_every = t.eval_every;
  parts.save_every = t.save.every;
  parts.batch_size = t.batch_size;
  return parts;
}

}  // namespace hone::training
