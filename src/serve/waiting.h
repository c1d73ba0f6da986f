// Requests that wait for the thread that has the model.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "base/strings.h"
#include "serve/front.h"

namespace hone::serve {

// Thread-safe. A Job has a `reply`.
template <class Job>
class Waiting {
 public:
  explicit Waiting(std::int64_t most) : most_(most) {}

  // Throws Refused where it would have to wait and as many wait already, or the end is near. What the next pass begins
  // does not wait: room() makes, under the lock, a function that says so of one after the other, up to the first.
  template <class Room>
  void add(std::shared_ptr<Job> job, const Room& room) {
    const std::lock_guard lock(mutex_);
    if (ended_) throw Refused(503, "the server is about to end");
    jobs_.push_back(std::move(job));
    auto begins = room();
    std::size_t first = 0;
    while (first < jobs_.size() && (jobs_[first]->reply.is_gone() || begins(*jobs_[first]))) ++first;
    if (const std::int64_t waiting = std::ssize(jobs_) - static_cast<std::int64_t>(first); waiting > most_) {
      jobs_.pop_back();
      throw Refused(503, too_many(waiting - 1), "", "overloaded");
    }
    more_.notify_one();
  }
  // The same where so many are begun together when nothing is being computed.
  void add(std::shared_ptr<Job> job, std::int64_t together) {
    add(std::move(job), [&] {
      return [left = is_busy_ ? 0 : together](const Job&) mutable { return left-- > 0; };
    });
  }
  // In the order in which they came, up to the first that may not: it holds up the others, so that it has its turn.
  // Those that nobody waits for any longer are left out.
  template <class May>
  std::vector<std::shared_ptr<Job>> take(const May& may) {
    std::vector<std::shared_ptr<Job>> taken;
    const std::lock_guard lock(mutex_);
    for (; !jobs_.empty(); jobs_.pop_front()) {
      if (jobs_.front()->reply.is_gone()) continue;
      if (!may(*jobs_.front())) break;
      taken.push_back(jobs_.front());
    }
    is_busy_ = !taken.empty();
    return taken;
  }
  // What room() looks at is changed so.
  template <class Change>
  void locked(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
  }
  std::int64_t size() const {
    const std::lock_guard lock(mutex_);
    return std::ssize(jobs_);
  }
  void wait() {  // until there is something, or some milliseconds
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::milliseconds(200), [&] { return !jobs_.empty(); });
  }
  void refuse_all() {  // and whatever comes from now on
    const std::lock_guard lock(mutex_);
    ended_ = true;
    for (const std::shared_ptr<Job>& job : jobs_) refuse(job->reply, Refused(503, "the server is about to end"));
    jobs_.clear();
  }

 private:
  static std::string too_many(std::int64_t others) {
    if (others == 0) return "all room is taken, and no request may wait; try again later";
    return fmt::format("{} {} already; try again later", counted(others, "request"), others == 1 ? "waits" : "wait");
  }

  std::int64_t most_;
  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool ended_ = false, is_busy_ = false;
};

}  // namespace hone::serve
