// A bounded queue between threads, and a worker thread that hands its exception to whoever joins it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace hone {

// First in, first out, at most `capacity` at once. Any number of threads on both sides.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

  // Waits for room. false: the queue was closed or failed, the value is dropped.
  bool push(T value) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(value));
    lock.unlock();
    filled_.notify_one();
    return true;
  }
  // Waits for a value. Nothing: closed and empty. Rethrows what fail() was given once the values before it are taken.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return std::nullopt;
    }
    std::optional<T> value(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return value;
  }
  // No more values: waiting push() calls return false, pop() drains what is there.
  void close() { end(nullptr, false); }
  // As close(), and the reader gets the exception.
  void fail(std::exception_ptr failure) { end(std::move(failure), false); }
  // As close(), and drops what is in the queue.
  void cancel() { end(nullptr, true); }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  void end(std::exception_ptr failure, bool drop) {
    std::deque<T> dropped;  // destroyed after the lock is released
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      if (failure && !failure_) failure_ = std::move(failure);
      if (drop) dropped.swap(items_);
    }
    room_.notify_all();
    filled_.notify_all();
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::deque<T> items_;
  std::exception_ptr failure_;
  bool closed_ = false;
};

// A thread that blocks the signals of BlockSignals and keeps the exception its work ended with.
class Worker {
 public:
  Worker() = default;
  Worker(std::string name, std::function<void()> work);  // the name, cut to 15 bytes, is seen in top and gdb
  ~Worker();                                             // joins; an exception nobody took is logged
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&& other) noexcept;

  bool running() const noexcept;  // started and its work has not ended
  bool joinable() const noexcept { return thread_.joinable(); }
  void join();  // waits, then rethrows the work's exception, once

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace hone
