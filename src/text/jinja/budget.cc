// Counting what a rendering uses; the clock is looked at every few thousand steps.
#include "text/jinja/budget.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "text/jinja/fault.h"

namespace hone::jinja {
namespace {

constexpr std::int64_t kStepsBetweenLooks = 4096;

// Processor time of this thread: a busy machine must not make a sound template fail.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

[[noreturn]] void fail_limit(std::string message) { throw Fault{std::move(message), 0, false, true}; }

}  // namespace

thread_local Budget* Budget::current_ = nullptr;

Budget::Budget(const Limits& limits)
    : outer_(current_), limits_(limits), next_look_(kStepsBetweenLooks), start_(thread_seconds()) {
  current_ = this;
}

Budget::~Budget() { current_ = outer_; }

void Budget::look() {
  if (steps_ > limits_.steps) fail_limit(fmt::format("more than {} evaluation steps", limits_.steps));
  if (thread_seconds() - start_ > limits_.seconds)
    fail_limit(fmt::format("takes more than {} seconds of processor time", limits_.seconds));
  next_look_ = steps_ + kStepsBetweenLooks;
}

void Budget::take_bytes(std::size_t count) {
  if (!current_) return;
  current_->bytes_ += static_cast<std::int64_t>(count);
  if (current_->bytes_ > current_->limits_.bytes)
    fail_limit(fmt::format("makes more than {} bytes of texts and lists", current_->limits_.bytes));
  take_steps(static_cast<std::int64_t>(count / 64));
}

void Budget::take_loop_step() {
  if (!current_) return;
  if (++current_->loop_steps_ > current_->limits_.loop_steps)
    fail_limit(fmt::format("more than {} rounds of loops", current_->limits_.loop_steps));
  take_steps(1);
}

void Budget::check_text(std::size_t bytes) {
  if (current_ && bytes > current_->limits_.text)
    fail_limit(fmt::format("a text of {} bytes; at most {}", bytes, current_->limits_.text));
}

}  // namespace hone::jinja
