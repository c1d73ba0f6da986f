// Beats.
#include "dist/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <sstream>
#include <thread>
#include <vector>

#include "base/ask_program.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/strings.h"
#include "dist/exchange.h"
#include "hone/error.h"
#include "hone/world.h"

namespace hone::dist {
namespace {

constexpr double kEvery = 0.25;   // seconds between beats
constexpr double kSuspicion = 2;  // how long one that is suspected may be silent
constexpr double kOwnWords = 3;   // for a rank to end by itself after another has told an error
constexpr double kPause = 2;      // between two looks: longer than it ever takes
constexpr int kStart = 5;         // times the limit, until a rank is there
constexpr const char* kLeft = "left";

std::string beat_key(int rank) { return fmt::format("beat/{}", rank); }

// How many exchanges a rank has come to: of all ranks, and of its group. In a beat "41", or "41/12".
struct Exchanges {
  std::int64_t of_all = 0, of_group = 0;

  std::string text() const { return of_group == 0 ? std::to_string(of_all) : fmt::format("{}/{}", of_all, of_group); }
  friend std::istream& operator>>(std::istream& in, Exchanges& all) {
    in >> all.of_all;
    return in && in.peek() == '/' ? in.ignore() >> all.of_group : in;
  }
};

// What a rank says of itself: how often it has beaten, how many exchanges it has come to, what it is at.
struct Beat {
  std::string text;
  Exchanges exchanges;
  std::string phase;

  explicit Beat(std::string given = "") : text(std::move(given)) {
    std::istringstream in(text);
    std::int64_t number = 0;
    in >> number >> exchanges >> std::ws;
    std::getline(in, phase);
  }
};

// Without the log, which the main thread may hold. Where stderr takes nothing (a terminal that was stopped), it is not
// said: nobody waits for that.
void say(log::Level level, const std::string& fact, double patience) {
  const std::string text = (use_escapes() ? "\r\x1b[K" : "") + log::line(level, fact);
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, static_cast<int>(patience * 1000)) <= 0) return;
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {
    // Nobody to tell.
  }
}

[[noreturn]] void end(int code, const std::string& fact) {
  constexpr double kPatience = 2;
  if (!fact.empty()) say(log::Level::error, fact, kPatience);
  _exit(code);
}

}  // namespace

struct Watchdog::State {
  State(Store connection, const Place& at)
      : store(std::move(connection)), place(at), seen(static_cast<std::size_t>(at.size)) {}

  // For other ranks.
  struct Wait {
    double since = 0, next_warning = 0;  // 0: it does not wait

    void begin(double limit) {
      since = monotonic_seconds();
      next_warning = since + limit;
    }
  };

  // What was last read of a rank, and when it changed.
  struct Seen {
    Beat beat;
    double since = 0;
  };

  Store store;
  const Place place;
  std::vector<Seen> seen;
  double looked_at = 0;
  std::string told;    // another rank's error
  double told_at = 0;  // when it was first seen
  std::mutex mutex;
  std::condition_variable wake;
  std::string phase = "starting";
  bool suspicious = false, leaving = false, stopping = false;
  std::int64_t beats = 0;
  Exchanges exchanges;
  int group = 1;   // ranks of one
  int within = 0;  // of such groups is the exchange at hand; 0: of all ranks
  Wait host, device;
  std::mutex asking;
  std::function<bool()> stands_still;  // of the device
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      const std::string own = leaving ? kLeft : fmt::format("{} {} {}", ++beats, exchanges.text(), phase);
      const bool suspects = suspicious, leaves = leaving;
      lock.unlock();
      look(own, suspects, leaves);
      const bool waits = ask_device();
      lock.lock();
      hear_of_device(waits);
      if (const std::string warning = of_those_behind(); !warning.empty()) {
        lock.unlock();
        say(log::Level::warning, warning, 0);
        lock.lock();
      }
      wake.wait_for(lock, std::chrono::duration<double>(kEvery), [&] { return stopping; });
    }
  }

  bool ask_device() {
    const std::lock_guard lock(asking);
    return stands_still && stands_still();
  }
  void hear_of_device(bool waits) {
    if (!waits) device.since = 0;
    if (waits && device.since == 0) device.begin(place.limit_seconds);
  }

  void look(const std::string& own, bool suspects, bool leaves) {
    std::string fact;
    const double now = monotonic_seconds();
    if (now - looked_at > kPause)  // this process itself has stood still, and perhaps all of them
      for (Seen& one : seen) one.since = now;
    looked_at = now;
    try {
      store.set(beat_key(place.rank), own);
      if (leaves) return;
      // Who fails so saves with all others before it tells its error.
      if (store.find(fmt::format("{}/{}", kOfRanks, kFailedKey))) tell_others_failed(kFailedElsewhere);
      if (const auto now_told = store.find(kToldKey)) told = *now_told;
      if (!told.empty()) return end_with_others(suspects);
      if (const auto lost = store.find(kLostKey))
        fact = *lost;
      else
        fact = silent_rank(suspects ? std::min(place.limit_seconds, kSuspicion) : place.limit_seconds);
    } catch (const Error&) {
      if (leaves) return;
      if (!told.empty()) return end_with_others(true);
      fact = place.store_is_served ? "the launcher is gone" : "rank 0, which served the store, is gone";
    }
    if (!fact.empty()) leave_and_end(static_cast<int>(ErrorKind::peer), fact);
  }

  // Whoever serves the store waits for the others to leave.
  [[noreturn]] void leave_and_end(int code, const std::string& fact) {
    try {
      store.set(beat_key(place.rank), kLeft);
    } catch (const Error&) {  // the store is gone
    }
    end(code, fact);
  }

  // Who tells it has told it to the same terminal, if it is on this machine.
  void end_with_others(bool at_once) {
    const double now = monotonic_seconds();
    if (told_at == 0) told_at = now;
    if (!at_once && now - told_at < kOwnWords) return;
    const std::size_t text = told.find(' ');
    leave_and_end(parse_int(told.substr(0, text)).value_or(static_cast<int>(ErrorKind::peer)),
                  place.on_one_machine() || text == std::string::npos ? "" : told.substr(text + 1));
  }

  bool is_behind(int rank, const Exchanges& has) const {
    if (has.of_all != exchanges.of_all) return has.of_all < exchanges.of_all;
    return rank / group == place.rank / group && has.of_group < exchanges.of_group;
  }

  // All of them live. The lowest of those that wait speaks, each time after twice as long.
  std::string of_those_behind() {
    const double now = monotonic_seconds();
    Wait& wait = host.since > 0 ? host : device;
    if (leaving || wait.since == 0 || now < wait.next_warning) return "";
    std::vector<std::string> behind;
    for (int rank = 0; rank < place.size; ++rank) {
      const Seen& one = seen[static_cast<std::size_t>(rank)];
      if (rank == place.rank || one.beat.text == kLeft) continue;
      if (within > 0 && rank / within != place.rank / within) continue;
      if (is_behind(rank, one.beat.exchanges))
        behind.push_back(fmt::format("rank {}, which is at {}", rank, one.beat.phase));
      else if (rank < place.rank)
        return "";
    }
    wait.next_warning = now + 2 * (now - wait.since);
    return behind.empty() ? fmt::format("all ranks have waited for each other for {:.0f} s: can they reach each other?",
                                        now - wait.since)
                          : fmt::format("has waited {:.0f} s for {}", now - wait.since, join(behind, ", "));
  }

  std::string silent_rank(double silent) {
    const double now = monotonic_seconds();
    for (int rank = 0; rank < place.size; ++rank) {
      if (rank == place.rank) continue;
      Seen& one = seen[static_cast<std::size_t>(rank)];
      const std::string beat = store.find(beat_key(rank)).value_or("");
      if (beat != one.beat.text || one.since == 0 || beat == kLeft) one = {Beat(beat), now};
      if (now - one.since > (beat.empty() ? kStart * place.limit_seconds : silent))
        return fmt::format("rank {} has not been heard of for {:.0f} s; it was last {}", rank, now - one.since,
                           beat.empty() ? "not there yet" : "at " + one.beat.phase);
    }
    return "";
  }
};

Watchdog::Watchdog(Store store, const Place& place) : state_(std::make_unique<State>(std::move(store), place)) {
  const BlockSignals blocked;  // they are the main thread's
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Watchdog::~Watchdog() { stop(); }

void Watchdog::stop() {
  if (!state_->thread.joinable()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
  if (!state_->leaving) return;
  try {
    state_->store.set(beat_key(state_->place.rank), kLeft);
  } catch (const Error&) {  // the store is gone, and with it who would miss this rank
  }
}

void Watchdog::at(std::string phase) {
  const std::lock_guard lock(state_->mutex);
  state_->phase = std::move(phase);
}

void Watchdog::begin_exchange(int within) {
  const std::lock_guard lock(state_->mutex);
  state_->within = within;
  if (within > 0)
    state_->group = within, ++state_->exchanges.of_group;
  else
    ++state_->exchanges.of_all;
  state_->host.begin(state_->place.limit_seconds);
}

void Watchdog::end_exchange() {
  const std::lock_guard lock(state_->mutex);
  state_->host.since = 0;
}

void Watchdog::watch(std::function<bool()> stands_still) {
  const std::lock_guard lock(state_->asking);
  state_->stands_still = std::move(stands_still);
}

void Watchdog::suspect() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->suspicious = true;
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(kSuspicion + 4 * kEvery));
  const std::lock_guard lock(state_->mutex);
  state_->suspicious = false;
}

void Watchdog::leave() {
  const std::lock_guard lock(state_->mutex);
  state_->leaving = true;
}

bool Watchdog::all_have_left() {
  for (int rank = 0; rank < state_->place.size; ++rank)
    if (rank != state_->place.rank && state_->store.find(beat_key(rank)) != kLeft) return false;
  return true;
}

}  // namespace hone::dist
