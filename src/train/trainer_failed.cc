// What is left of a run that ends with an error: all whole steps that it had made.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "train/trainer.h"
#include "train/world_facts.h"

namespace hone::training {
namespace {

// Whether the steps before it are worth keeping as they are: not where numbers are no numbers, where a checkpoint could
// not be written, where others are lost or have taken over, or where the program itself may be wrong.
bool leaves_steps_whole(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::not_finite:
    case ErrorKind::checkpoint:
    case ErrorKind::peer:
    case ErrorKind::locked: return false;
    case ErrorKind::bug: return !std::string_view(error.what()).starts_with("assertion failed");
    default: return true;
  }
}

// An error as ranks tell each other: its rank, the number of its kind, its text.
std::string as_told(int rank, ErrorKind kind, const std::string& text) {
  return fmt::format("{} {} {}", rank, static_cast<int>(kind), text);
}
std::string text_told(const std::string& all) { return all.substr(all.find(' ', all.find(' ') + 1) + 1); }
Error error_told(const std::string& all) {
  const std::size_t kind = all.find(' ') + 1;
  const auto number = parse_int(all.substr(kind, all.find(' ', kind) - kind));
  return Error(static_cast<ErrorKind>(number.value_or(static_cast<int>(ErrorKind::peer))),
               fmt::format("rank {}: {}", all.substr(0, kind - 1), text_told(all)));
}

}  // namespace

// A rank that was woken by another one's error ends with that one. A signal that has ended a step, as a program was
// waited for, is no error where the steps before it are whole.
Summary Trainer::run() {
  std::optional<Error> end;
  try {
    return run_to_its_end();
  } catch (const Error& error) {
    end = gradients_failed_ || leaves_steps_whole(error) ? save_whole_steps(error) : error;
  } catch (const std::exception& error) {
    save_whole_steps(Error(ErrorKind::bug, error.what()));
    hooks_.failed(view(), error.what());
    throw;
  } catch (...) {
    hooks_.failed(view(), "what was thrown is no std::exception");
    throw;
  }
  if (!end) return finish();
  hooks_.failed(view(), end->what());
  throw *end;
}

// Between two updates of one step nothing is whole.
bool Trainer::steps_are_whole() const {
  return updated_for_ <= state_.step && !parts_.options.replay && state_.step > 0;
}

// A save is made by all ranks, of one step.
bool Trainer::agree_on_whole_steps() const {
  const std::vector<std::string> all =
      world_.gather(fmt::format("{} {} {}", steps_are_whole(), state_.step, saver_->step()));
  return steps_are_whole() && std::ranges::all_of(all, [&](const std::string& one) { return one == all[0]; });
}

// Others may wait for what this rank would have sent them: they are told first. What goes wrong here hides nothing of
// what went wrong before. Returns what the run ends with: of a rank that was woken what the other one has told; nothing
// where the run was told to stop.
std::optional<Error> Trainer::save_whole_steps(const Error& error) {
  Error end = error.kind() == kFailedElsewhere ? Error(ErrorKind::peer, error.what()) : error;
  if (error.kind() != kFailedElsewhere && !steps_are_whole()) return end;
  try {
    world_.at(fmt::format("step {}, at an error", state_.step));
    const bool stopped = error.kind() == kStopped;
    const std::string first =
        world_.meet_again(as_told(world_.rank(), error.kind(), stopped ? stop_name() : error.what()));
    // Of a signal that came meanwhile, too: what has failed would fail again.
    if (error.kind() == kFailedElsewhere || (stopped && error_told(first).kind() != kStopped)) end = error_told(first);
    if (!agree_on_whole_steps()) return end;
    if (before_step_) state_.objective = before_step_->objective, state_.loss_scale = before_step_->loss_scale;
    if (end.kind() == kStopped) {
      end_at_signal(text_told(first));
      return std::nullopt;
    }
    save_now();
  } catch (const std::exception& second) {
    log::warning("{}: the steps since {} are lost: {}", recipe_.run.folder, saver_->kept(), second.what());
  }
  return end;
}

// finish() saves, and says the rest.
void Trainer::end_at_signal(const std::string& name) {
  if (signal_.empty()) {
    signal_ = name;
    hooks_.signalled(view(), signal_);
  }
  if (before_step_) log::info("step {} is given up, as a program was waited for", state_.step + 1);
}

void Trainer::save_now() {
  stepper_->settle();
  told_saved(saver_->settle(/*wait=*/true));
  if (saver_->step() >= state_.step && saver_->can_go_on()) return;
  goes_on_ = true;
  check_replicas(world_, model_, stepper_->updater(), state_.step, saver_->kept());
  hooks_.store(state_);
  saver_->save(worth());
  told_saved(saver_->settle(/*wait=*/true));
  log::info("{}: step {} is saved; once what is said below is mended, the same command goes on from there, with "
            "--override data where data have changed",
            recipe_.run.folder, state_.step);
}

}  // namespace hone::training
