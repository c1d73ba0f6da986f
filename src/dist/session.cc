// Joining and leaving a job.
#include "dist/session.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "dist/meeting.h"
#include "dist/watchdog.h"
#include "hone/error.h"

namespace hone::dist {
namespace {

constexpr int kPatience = 5;                           // times the limit, for all ranks to come
constexpr double kOthersLeave = 30, kFirstSpeaks = 2;  // seconds
constexpr const char* kFirstError = "error/0";

bool wait_until(double seconds, const std::function<bool()>& done) {
  for (const Stopwatch watch; watch.seconds() < seconds; std::this_thread::sleep_for(std::chrono::milliseconds(20)))
    if (done()) return true;
  return false;
}

// Whose devices the watchdog asks whether they wait: those of all ranks, and of groups.
class Devices {
 public:
  explicit Devices(Watchdog& watchdog) : watchdog_(watchdog) {}
  ~Devices() { watchdog_.watch(nullptr); }
  void watch(std::shared_ptr<RankCollectives> one) {
    if (std::ranges::find(all_, one) == all_.end()) all_.push_back(std::move(one));
    watchdog_.watch([all = all_] { return std::ranges::any_of(all, [](auto& one) { return one->stands_still(); }); });
  }

 private:
  Watchdog& watchdog_;
  std::vector<std::shared_ptr<RankCollectives>> all_;
};

// A call that fails asks the watchdog who is lost; it ends the process if somebody is.
class Watched final : public Collectives {
 public:
  Watched(std::shared_ptr<RankCollectives> inner, Watchdog& watchdog)
      : Watched(std::move(inner), watchdog, std::make_shared<Devices>(watchdog), /*within=*/0) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void compute_on(at::Device device) override {
    watched([&] { return inner_->compute_on(device), 0; });
    devices_->watch(inner_);
  }
  std::shared_ptr<Collectives> among(int size) override {
    return part(RankCollectives::Cut::among, size, /*within=*/size);
  }
  // To the watchdog they are of all ranks, which all make them at one point.
  std::shared_ptr<Collectives> across(int size) override {
    return part(RankCollectives::Cut::across, size, /*within=*/0);
  }
  void sum(Tensor& x) override {
    watched([&] { return inner_->sum(x), 0; });
  }
  std::vector<std::string> gather(const std::string& own) override {
    return watched([&] { return inner_->gather(own); });
  }
  std::unique_ptr<Begun> begin_sum(const Tensor& whole, const Tensor& share) override {
    return watched([&] { return std::make_unique<WatchedBegun>(*this, inner_->begin_sum(whole, share)); });
  }
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override {
    return watched([&] { return std::make_unique<WatchedBegun>(*this, inner_->begin_gather(share, whole)); });
  }
  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) override {
    return watched([&] { return std::make_unique<WatchedBegun>(*this, inner_->begin_all_to_all(from, to)); });
  }
  std::string meet_again(const std::string& why) override {
    HONE_ASSERT(within_ == 0);
    return watched([&] { return inner_->meet_again(why); });
  }
  void at(const std::string& phase) override { watchdog_.at(phase); }
  Traffic traffic() const override { return inner_->traffic(); }

 private:
  // within: the size of groups, where this is of one; 0: of all ranks.
  Watched(std::shared_ptr<RankCollectives> inner, Watchdog& watchdog, std::shared_ptr<Devices> devices, int within)
      : inner_(std::move(inner)), watchdog_(watchdog), devices_(std::move(devices)), within_(within) {}

  class WatchedBegun final : public Begun {
   public:
    WatchedBegun(Watched& all, std::unique_ptr<Begun> inner) : all_(all), inner_(std::move(inner)) {}
    void wait() override {
      all_.watched([&] { return inner_->wait(), 0; });
    }

   private:
    Watched& all_;
    std::unique_ptr<Begun> inner_;
  };

  std::shared_ptr<Collectives> part(RankCollectives::Cut cut, int size, int within) {
    const std::shared_ptr<RankCollectives> group = watched([&] { return inner_->group(cut, size); });
    if (group->has_device()) devices_->watch(group);
    return std::shared_ptr<Watched>(new Watched(group, watchdog_, devices_, within));
  }

  template <class Call>
  auto watched(const Call& call) -> decltype(call()) {
    struct Exchange {
      Exchange(Watchdog& dog, int within) : dog_(dog) { dog_.begin_exchange(within); }
      ~Exchange() { dog_.end_exchange(); }
      Watchdog& dog_;
    };
    try {
      const Exchange exchange(watchdog_, within_);
      return call();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::peer) watchdog_.suspect();
      throw;
    }
  }
  std::shared_ptr<RankCollectives> inner_;
  Watchdog& watchdog_;
  std::shared_ptr<Devices> devices_;
  const int within_;
};

}  // namespace

struct Session::State {
  Place place;
  std::optional<Store> served, store;
  std::unique_ptr<Watchdog> watchdog;
  std::shared_ptr<RankCollectives> together;
  bool joined = false;
};

Session::Session() : state_(std::make_unique<State>()) {}

std::unique_ptr<Session> Session::join() {
  const std::optional<Place> place = find_place();
  if (!place) return nullptr;
  std::unique_ptr<Session> made(new Session());
  State& state = *made->state_;
  state.place = *place;
  const double patience = kPatience * place->limit_seconds;
  await_name(*place, patience);
  state.served = maybe_serve(*place);
  state.store = connect(*place, patience);
  claim_rank(*state.store, *place);
  state.watchdog = std::make_unique<Watchdog>(connect(*place, patience), *place);
  if (place->store_is_served) prctl(PR_SET_PDEATHSIG, 0);  // the watchdog says why it ends
  try {
    state.together = state.store->join(*place, patience);
  } catch (const Error&) {
    if (!state.store->answers()) state.watchdog->suspect();  // which knows better why, and ends the process
    throw;
  }
  made->world_ = World(std::make_shared<Watched>(state.together, *state.watchdog));
  state.joined = true;
  const bool bound = cpus().allowed < cpus().machine;  // to processors of its own, as Slurm and Open MPI do
  if (!cpus().asked && !bound) at::set_num_threads(std::max(1, threads_by_core(cpus()) / place->local_size));
  return made;
}

void Session::announce() const {
  const Place& place = state_->place;
  if (place.rank > 0) return log::set_level(log::Level::error);
  log::info("{} ranks by {}, this is rank 0", place.size, place.launcher);
}

bool Session::leaves_threads() const {
  const RankCollectives* together = state_->together.get();
  return together && (together->has_device() || together->has_met_again());
}

// Whoever serves the store leaves last. Who has not joined does not leave either: the others are to miss it.
void Session::leave() {
  if (!std::exchange(state_->joined, false)) return;
  Watchdog& watchdog = *state_->watchdog;
  watchdog.leave();
  try {
    if (state_->served) wait_until(kOthersLeave, [&] { return watchdog.all_have_left(); });
  } catch (const Error&) {  // of the store: nobody needs it any more
  }
  watchdog.stop();
}

Session::~Session() { leave(); }

std::optional<std::string> Session::own_words(const std::string& error, int code) {
  state_->watchdog->leave();
  const int rank = state_->place.rank;
  try {
    if (rank == 0) state_->store->set(kFirstError, error);
    if (!state_->store->find(kToldKey)) state_->store->set(kToldKey, fmt::format("{} rank {}: {}", code, rank, error));
    if (rank == 0) return error;
    // Where one has told its error to the others, these name it.
    const std::string named = fmt::format("rank {}: {}", rank, error);
    const bool same = wait_until(kFirstSpeaks, [&] {
      const std::optional<std::string> first = state_->store->find(kFirstError);
      return first && (*first == error || *first == named || "rank 0: " + *first == error);
    });
    if (same) return std::nullopt;
  } catch (const Error&) {  // the store is gone: so nobody else may say it
  }
  return fmt::format("rank {}: {}", rank, error);
}

}  // namespace hone::dist
