// Requests that wait for the thread that has the model.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "serve/front.h"

namespace hone::serve {

// Thread-safe. A Job has a `reply`.
template <class Job>
class Waiting {
 public:
  explicit Waiting(std::int64_t most) : most_(most) {}

  // Throws Refused where as many wait already, or the end is near.
  void add(std::shared_ptr<Job> job) {
    const std::lock_guard lock(mutex_);
    if (ended_) throw Refused(503, "the server is about to end");
    if (std::ssize(jobs_) >= most_)
      throw Refused(503, fmt::format("{} requests wait already; try again later", jobs_.size()), "", "overloaded");
    jobs_.push_back(std::move(job));
    more_.notify_one();
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
    return taken;
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
  std::int64_t most_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool ended_ = false;
};

}  // namespace hone::serve
