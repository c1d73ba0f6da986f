// Saving.
#include "train/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/threads.h"

namespace hone::training {

void Saver::resumed_from(const io::Checkpoint& checkpoint) {
  step_ = from_ = checkpoint.step;
  name_ = checkpoint.name;
}

void Saver::start_clock() { last_ = monotonic_seconds(); }

bool Saver::due_by_clock() const {
  const double minutes = recipe_.trainer.save.every_minutes;
  return minutes > 0 && monotonic_seconds() - last_ >= 60 * minutes;
}

bool Saver::due(bool asked_for) const {
  const std::int64_t every = recipe_.trainer.save.every;
  return asked_for || (every > 0 && state_.step % every == 0);
}

// A checkpoint that is written while the run goes on.
struct Saver::Pending {
  std::int64_t step;
  std::vector<Best> before;  // state_.best without it
  CheckpointWrite write;
  bool with_optimizer, finite;
  Stopwatch watch = {};
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::optional<Error> failure = {};
  Worker worker = {};  // the last member: ends before the others do
};

Saver::Saver(io::RunFolder& run, const Recipe& recipe, RunState& state, std::function<CheckpointParts()> parts,
             std::int64_t steps, World world)
    : run_(run), recipe_(recipe), state_(state), parts_(std::move(parts)), world_(std::move(world)), steps_(steps) {}

Saver::~Saver() = default;

void Saver::try_save(const std::optional<Worth>& worth) {
  start_clock();
  try {
    recipe_.trainer.save.asynchronous ? begin(worth) : save(worth);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    report_failure(state_.step, error);
  }
}

// Memory or a thread that is not to be had costs the checkpoint. Of several ranks it ends them all: the others would
// wait for this one's exchanges.
void Saver::guarded(std::int64_t step, const std::function<void()>& act) const {
  try {
    act();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (world_.size() > 1) throw;
    const std::string_view text = error.what();
    throw Error(ErrorKind::checkpoint, fmt::format("{}: cannot save: {}",
                                                   (run_.path() / "checkpoints" / io::step_name(step)).string(),
                                                   text.substr(0, text.find('\n'))));
  }
}

void Saver::begin(const std::optional<Worth>& worth) {
  finish_pending();
  const std::vector<Best> before = state_.best;
  const CheckpointParts parts = parts_to_save(worth);
  try {
    guarded(state_.step, [&] {
      pending_ = std::make_unique<Pending>(state_.step, before, CheckpointWrite(place_in(run_), state_, parts, world_),
                                           parts.with_optimizer, parts.finite);
      pending_->write.copy_tensors();
      pending_->worker = Worker("hone-save", [this, pending = pending_.get()] {
        try {
          guarded(pending->step, [&] { pending->bytes = *pending->write.write(); });
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::checkpoint) throw;
          pending->failure = error;
        }
        pending->seconds = pending->watch.seconds();
      });
    });
  } catch (...) {
    pending_.reset();
    state_.best = before;
    throw;
  }
}

// Never two at once: who comes while one is written waits, and says so.
void Saver::finish_pending() {
  if (!pending_) return;
  const std::unique_ptr<Pending> ended = std::move(pending_);
  const bool late = ended->worker.running();
  const Stopwatch watch;
  ended->worker.join();
  if (late)
    log::info("step {}: waited {} for the checkpoint of step {}, which was still being written", state_.step,
              human_duration(watch.seconds()), ended->step);
  if (ended->failure) {
    state_.best = ended->before;
    report_failure(ended->step, *ended->failure);
  } else {
    committed(ended->step, ended->with_optimizer, ended->finite, ended->bytes, ended->seconds);
  }
}

std::vector<std::string> Saver::settle(bool wait) {
  if (pending_ && (wait || !pending_->worker.running())) finish_pending();
  return std::exchange(untold_, {});
}

void Saver::report_failure(std::int64_t step, const Error& error) {
  failures_ += 1;
  std::string space;
  try {
    space = fmt::format("needs {}, free {}; ", human_size(bytes()),
                        human_size(run_.folder().env().free_bytes(run_.path())));
  } catch (const Error&) {
    space.clear();  // the disk that failed may not answer that either
  }
  log::error("checkpoint of step {} failed: {}; {}{}; training continues", step, error.what(), space,
             step_ < 0 ? "no checkpoint yet" : "kept " + kept());
}

std::string Saver::kept() const { return step_ < 0 ? "no checkpoint" : fmt::format("step {}", step_); }

void Saver::save(const std::optional<Worth>& worth) {
  const Stopwatch watch;
  const std::vector<Best> before = state_.best;
  const CheckpointParts parts = parts_to_save(worth);
  std::optional<std::uint64_t> bytes;
  try {
    guarded(state_.step, [&] { bytes = save_checkpoint(place_in(run_), state_, parts, world_); });
  } catch (...) {
    state_.best = before;
    throw;
  }
  if (!bytes) state_.best = before;
  if (bytes) committed(state_.step, parts.with_optimizer, parts.finite, *bytes, watch.seconds());
}

// What is not finite is no best one, whatever its evaluation said.
CheckpointParts Saver::parts_to_save(const std::optional<Worth>& worth) {
  CheckpointParts parts = parts_();
  parts.finite = parts.updater->weights_finite();
  if (worth && parts.finite) rank(*worth, recipe_.trainer.save.keep_best, state_.best);
  return parts;
}

void Saver::committed(std::int64_t step, bool with_optimizer, bool finite, std::uint64_t bytes, double seconds) {
  step_ = step, with_optimizer_ = with_optimizer;
  name_ = io::step_name(step);
  untold_.push_back(name_);
  if (!world_.is_first()) return;
  log::info("step {}: saved {} ({}, {})", step,
            (std::filesystem::path(recipe_.run.folder) / "checkpoints" / name_).string(), human_size(bytes),
            human_duration(seconds));
  if (seconds * 1.5 > recipe_.trainer.save.grace_seconds && seconds > slowest_)
    log::warning("a save takes {}: it may not fit between SIGTERM and SIGKILL (trainer.save.grace_seconds)",
                 human_duration(seconds));
  slowest_ = std::max(slowest_, seconds);
  if (!finite)
    log::warning(
        "step {}: its weights are not finite: it is neither latest nor best, and no run goes on from it by "
        "itself",
        step);
  tidy(finite);
}

// The checkpoint is committed: nothing here makes it a failed save.
void Saver::tidy(bool finite) {
  run_.note_checkpoint();
  if (finite) run_.link("latest", name_);
  std::set<std::int64_t> stay{from_};
  stay.insert(state_.were_best.begin(), state_.were_best.end());
  for (const Best& best : state_.best) stay.insert(best.step);
  if (!state_.best.empty() && std::exchange(linked_, state_.best.front().step) != state_.best.front().step)
    run_.link("best", io::step_name(state_.best.front().step));
  try {
    run_.checkpoints().retain(recipe_.trainer.save.keep, stay);
  } catch (const Error& error) {
    log::warning("older checkpoints are not removed: {}", error.what());
  }
}

std::set<std::int64_t> Saver::steps_there() const {
  std::set<std::int64_t> steps;
  for (const io::Checkpoint& one : run_.checkpoints().scan(io::Verify::sizes))
    if (one.whole() && one.finite && one.step <= state_.step) steps.insert(one.step);
  return steps;
}

void Saver::check_space() {
  try {
    run_.check_space(bytes(), to_come());
  } catch (const Error&) {
    run_.discard_if_new();  // the run has not begun
    throw;
  }
}

std::uint64_t Saver::bytes() const { return checkpoint_bytes(parts_()) + bytes_of(state_.callbacks); }

// How many checkpoints the disk must hold besides those that are there. They make room for each other, unless all are
// kept, but only when the next one is whole; the one that the run goes on from stays.
std::int64_t Saver::to_come() {
  const SaveSection& save = recipe_.trainer.save;
  const std::int64_t left = save.every > 0 ? (steps_ - 1) / save.every - state_.step / save.every : 0;
  const std::int64_t by_steps = left + 1;  // and the one at the end
  const bool more = save.every_minutes > 0 || save.after_evaluation;  // nobody knows how many
  if (save.keep == 0) return more ? std::max<std::int64_t>(2, by_steps) : by_steps;
  const bool measured = !state_.best_by.metric.empty(), outlived = from_ >= 0 && (more || by_steps > save.keep);
  std::int64_t most = most_at_once(save, measured) + std::ssize(state_.were_best) + (outlived ? 1 : 0);
  for (const io::Checkpoint& one : run_.checkpoints().scan(io::Verify::sizes)) most -= one.whole() ? 1 : 0;
  most = std::max<std::int64_t>(1, most);
  return more ? most : std::min(by_steps, most);
}

std::int64_t most_at_once(const SaveSection& save, bool measured) {
  return save.keep + (measured ? save.keep_best : 0) + 1;
}

}  // namespace hone::training
