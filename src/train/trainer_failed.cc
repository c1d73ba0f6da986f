// What is left of a run that ends with an error: all whole steps that it had made.
#include <fmt/format.h>

#include "base/log.h"
#include "train/trainer.h"

namespace hone::training {
namespace {

// Whether the steps before it are worth keeping as they are: not where numbers are no numbers, where a checkpoint could
// not be written, or where the program itself may be wrong.
bool leaves_steps_whole(ErrorKind kind) {
  return kind == ErrorKind::usage || kind == ErrorKind::config || kind == ErrorKind::data;
}

}  // namespace

Summary Trainer::run() {
  try {
    return run_to_its_end();
  } catch (const Error& error) {
    if (leaves_steps_whole(error.kind())) save_whole_steps();
    hooks_.failed(view(), error.what());
    throw;
  } catch (const std::exception& error) {
    save_whole_steps();
    hooks_.failed(view(), error.what());
    throw;
  } catch (...) {
    hooks_.failed(view(), "what was thrown is no std::exception");
    throw;
  }
}

// Of a process alone: others may be anywhere, and a save is made by all of them. Between two updates of one step
// nothing is whole. What goes wrong here hides nothing of what went wrong before.
void Trainer::save_whole_steps() try {
  const bool is_whole = updated_for_ <= state_.step && !parts_.options.replay && state_.step > 0;
  if (world_.size() > 1 || !is_whole) return;
  stepper_->settle();
  told_saved(saver_->settle(/*wait=*/true));
  if (saver_->step() >= state_.step) return;
  goes_on_ = true;
  hooks_.store(state_);
  saver_->save(worth());
  told_saved(saver_->settle(/*wait=*/true));
  log::info("{}: step {} is saved; once what is said below is mended, the same command goes on from there",
            recipe_.run.folder, state_.step);
} catch (const std::exception& second) {
  log::warning("{}: the steps since {} are lost: {}", recipe_.run.folder, saver_->kept(), second.what());
}

}  // namespace hone::training
