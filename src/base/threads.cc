// The worker thread.
#include "base/threads.h"

#include <pthread.h>

#include <atomic>

#include "base/log.h"
#include "base/signals.h"

namespace hone {

struct Worker::State {
  std::function<void()> work;
  std::atomic<bool> running{true};
  std::exception_ptr failure;  // written before the thread ends, read after it is joined
};

Worker::Worker(std::string name, std::function<void()> work) : state_(std::make_shared<State>()) {
  state_->work = std::move(work);
  const BlockSignals blocked;  // inherited by the new thread
  thread_ = std::thread([state = state_, name = name.substr(0, 15)] {
    pthread_setname_np(pthread_self(), name.c_str());
    try {
      state->work();
    } catch (...) {  // kept for join()
      state->failure = std::current_exception();
    }
    state->work = nullptr;  // what the work holds goes in this thread
    state->running = false;
  });
}

Worker::~Worker() {
  if (!thread_.joinable()) return;
  try {
    join();
  } catch (const std::exception& error) {
    log::error("a background thread failed: {}", error.what());
  }
}

Worker::Worker(Worker&& other) noexcept = default;

Worker& Worker::operator=(Worker&& other) noexcept {
  if (this != &other) {
    Worker old(std::move(*this));  // joins
    state_ = std::move(other.state_);
    thread_ = std::move(other.thread_);
  }
  return *this;
}

bool Worker::running() const noexcept { return state_ && state_->running; }

void Worker::join() {
  if (!thread_.joinable()) return;
  thread_.join();
  if (std::exception_ptr failure = std::exchange(state_->failure, nullptr)) std::rethrow_exception(failure);
}

}  // namespace hone
