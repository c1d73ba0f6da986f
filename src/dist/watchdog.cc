// Beats.
#include "dist/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "hone/error.h"

namespace hone::dist {
namespace {

constexpr double kEvery = 0.25, kSuspicion = 2;  // seconds between beats; how long one that is suspected may be silent

std::string beat_key(int rank) { return fmt::format("hone/beat/{}", rank); }

}  // namespace

struct Watchdog::State {
  State(Store connection, const Place& at, double timeout)
      : store(std::move(connection)), place(at), limit(timeout), seen(static_cast<std::size_t>(at.size)) {}

  // What was last read of a rank, and when it changed.
  struct Seen {
    std::string beat;
    double since = 0;
  };

  Store store;
  const Place place;
  const double limit;
  std::vector<Seen> seen;
  std::mutex mutex;
  std::condition_variable wake;
  std::string phase = "starting";
  bool suspicious = false, stopping = false;
  std::int64_t beats = 0;
  std::thread thread;

  [[noreturn]] static void end(const std::string& fact) {
    log::set_status("");
    std::fprintf(stderr, "error: %s\n", fact.c_str());
    std::fflush(stderr);
    _exit(static_cast<int>(ErrorKind::peer));
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      const std::string own = fmt::format("{} {}", ++beats, phase);
      const double silent = suspicious ? std::min(limit, kSuspicion) : limit;
      lock.unlock();
      look(own, silent);
      lock.lock();
      wake.wait_for(lock, std::chrono::duration<double>(kEvery), [&] { return stopping; });
    }
  }

  void look(const std::string& own, double silent) {
    std::string fact;
    try {
      store.set(beat_key(place.rank), own);
      if (const auto lost = store.find(kLostKey)) end(*lost);
      fact = silent_rank(silent);
    } catch (const Error&) {
      fact = place.store_is_served ? "the launcher is gone" : "rank 0, which served the store, is gone";
    }
    if (!fact.empty()) end(fact);
  }

  std::string silent_rank(double silent) {
    const double now = monotonic_seconds();
    for (int rank = 0; rank < place.size; ++rank) {
      if (rank == place.rank) continue;
      Seen& one = seen[static_cast<std::size_t>(rank)];
      const std::string beat = store.find(beat_key(rank)).value_or("");
      if (beat != one.beat || one.since == 0) one = {beat, now};
      if (now - one.since > silent)
        return fmt::format("rank {} has not been heard of for {:.0f} s; it was last {}", rank, now - one.since,
                           beat.empty() ? "not there yet" : "at " + beat.substr(beat.find(' ') + 1));
    }
    return "";
  }
};

Watchdog::Watchdog(Store store, const Place& place, double timeout_seconds)
    : state_(std::make_unique<State>(std::move(store), place, timeout_seconds)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

void Watchdog::at(std::string phase) {
  const std::lock_guard lock(state_->mutex);
  state_->phase = std::move(phase);
}

void Watchdog::suspect() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->suspicious = true;
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(kSuspicion + 4 * kEvery));
}

}  // namespace hone::dist
