// The watch over how long threads wait for processors, and what makes libgomp's threads sleep.
#include "tensor/give_way.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <system_error>

#include "base/clock.h"
#include "base/threads.h"

namespace hone {
namespace {

// Seconds that this process's threads could run and did not, since they are. Nothing: the system does not tell.
std::optional<double> seconds_in_queues() {
  double sum = 0;
  bool any = false;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream file(task.path() / "schedstat");
    double ran = 0, waited = 0;
    if (!(file >> ran >> waited)) continue;
    sum += 1e-9 * waited;
    any |= ran > 0;
  }
  return any ? std::optional(sum) : std::nullopt;
}

// libgomp spins only 100 turns while there are more of its threads than processors, so this is that many more, asleep.
class Crowd {
 public:
  explicit Crowd(int size)
      : worker_("give way", [this, size] {
#pragma omp parallel num_threads(size)
          leave_.wait(0);
        }) {}
  ~Crowd() {
    leave_ = 1;
    leave_.notify_all();
  }

 private:
  std::atomic<int> leave_{0};
  Worker worker_;  // joined first
};

// Of a crowd that is enough. libgomp ends the process when a thread cannot be made, so it must be small.
std::optional<int> crowd_size() {
  const int size = std::max(0, omp_get_num_procs() - at::get_num_threads()) + 2;
  return size <= 16 ? std::optional(size) : std::nullopt;
}

// Seconds between two looks: the first while threads wait, up to the second while they do not, since each look takes
// the processor from a thread that the others then wait for.
constexpr double kPeriod = 0.025, kCalmPeriod = 0.4;

}  // namespace

double GiveWayPolicy::update(double waited, double elapsed) {
  constexpr double kShare = 0.2, kFirst = 0.25, kLongest = 2, kCalm = 1;
  if (sleep_) {
    sleep_ = false;
    return period_ = kPeriod;
  }
  calm_ += elapsed;
  in_row_ = waited > kShare * elapsed ? in_row_ + 1 : 0;
  const bool again = pause_ > 0 && calm_ <= kCalm;
  if (in_row_ < (again ? 1 : 2))
    return period_ = again || in_row_ > 0 ? kPeriod : std::clamp(2 * period_, kPeriod, kCalmPeriod);
  pause_ = again ? std::min(kLongest, 2 * pause_) : kFirst;
  calm_ = 0, in_row_ = 0;
  sleep_ = true;
  return pause_;
}

class GiveWay::Watch {
 public:
  explicit Watch(int crowd) : crowd_size_(crowd), worker_("give way", [this] { watch(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  bool sleeping() const { return sleeping_; }

 private:
  void watch() {
    GiveWayPolicy policy;
    std::unique_ptr<Crowd> crowd;
    double before = seconds_in_queues().value_or(0), pause = kPeriod;
    Stopwatch since;
    for (std::unique_lock lock(mutex_);
         !changed_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return done_; });) {
      const double elapsed = since.seconds();
      since.restart();
      const double now = seconds_in_queues().value_or(before);
      const double cost = since.seconds();
      // The sum falls when a thread ends.
      pause = std::max(policy.update(std::max(0.0, now - before), elapsed), kMostCost * cost);
      before = now;
      if (!policy.sleep()) crowd.reset();
      if (policy.sleep() && !crowd) crowd = make_crowd();
      sleeping_ = crowd != nullptr;
    }
  }

  std::unique_ptr<Crowd> make_crowd() const {
    try {
      return std::make_unique<Crowd>(crowd_size_);
    } catch (const std::system_error&) {  // no thread to be had: threads spin on
      return nullptr;
    }
  }

  static constexpr double kMostCost = 500;  // looking takes no more than a 500th of the time
  const int crowd_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::atomic<bool> sleeping_{false};
  Worker worker_;
};

GiveWay::GiveWay() {
  static std::mutex mutex;
  static std::weak_ptr<Watch> shared;
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT") || at::get_num_threads() == 1) return;
  const std::optional<int> crowd = crowd_size();
  if (!crowd || !seconds_in_queues()) return;
  const std::lock_guard lock(mutex);
  watch_ = shared.lock();
  if (watch_) return;
  try {
    shared = watch_ = std::make_shared<Watch>(*crowd);
  } catch (const std::system_error&) {  // no thread to be had: as where the system does not tell
  }
}
GiveWay::~GiveWay() = default;

bool GiveWay::sleeping() const { return watch_ && watch_->sleeping(); }

}  // namespace hone
