// Work that takes too long for the server's own thread, and is none of the model's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/signals.h"

namespace hone::serve {

// A thread that does what it is given, one after the other. Thread-safe.
class Beside {
 public:
  Beside() {
    const BlockSignals none_for_the_worker;
    thread_ = std::thread([this] { run(); });
  }
  // All that was given is done before: whoever waits for it is answered.
  ~Beside() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    more_.notify_all();
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  void add(std::function<void()> work) {  // which throws nothing
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    more_.notify_one();
  }
  std::int64_t size() const {
    const std::lock_guard lock(mutex_);
    return std::ssize(waiting_);
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      more_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> waiting_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace hone::serve
