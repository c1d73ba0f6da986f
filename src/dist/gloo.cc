// c10d's Gloo.
#include "dist/gloo.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/clock.h"
#include "base/sections.h"
#include "base/signals.h"
#include "base/strings.h"
#include "dist/own_address.h"
#include "dist/peer_call.h"
#include "tensor/host.h"

namespace hone::dist {
namespace {

// For how long anything was on its way, and was waited for. Ends are told by Gloo's threads.
class OnTheWay {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    if (count_++ == 0) since_ = monotonic_seconds();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) seconds_ += monotonic_seconds() - since_;
  }
  // look: now and then, while it waits; it may throw.
  void wait(c10d::Work& work, const std::function<void()>& look) {
    const Stopwatch watch;
    while (!is_over(work)) look();
    waited_ += watch.seconds();
  }
  double waited() const { return waited_; }
  double seconds() const {
    const std::lock_guard lock(mutex_);
    return seconds_ + (count_ > 0 ? monotonic_seconds() - since_ : 0);
  }

 private:
  // After a second at most. What went wrong is thrown.
  static bool is_over(c10d::Work& work) {
    try {
      return work.wait(std::chrono::seconds(1));
    } catch (const std::exception&) {
      if (!work.isCompleted()) return false;
    }
    return work.wait();  // it has ended, perhaps since it was given up
  }
  mutable std::mutex mutex_;
  int count_ = 0;
  double since_ = 0, seconds_ = 0;
  double waited_ = 0;  // of the thread that trains
};

// LibTorch keeps the last exchanges for a debugger, each with where it was asked for. Nobody reads that here, and in
// 2.11 threads with groups of their own write its table at once. It looks at the environment when it is used first.
void keep_no_record() {
  static const int once = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  static_cast<void>(once);
}

// By GLOO_SOCKET_IFNAME, as LibTorch's programs have it: the interfaces that it names.
std::vector<std::shared_ptr<gloo::transport::Device>> devices_of(const Place& place) {
  using Group = c10d::ProcessGroupGloo;
  std::vector<std::shared_ptr<gloo::transport::Device>> devices;
  if (const char* named = std::getenv("GLOO_SOCKET_IFNAME"); named && *named) {
    for (const std::string& one : split(named, ',')) devices.push_back(Group::createDeviceForInterface(one));
    return devices;
  }
  const std::string own = place.on_one_machine() ? "127.0.0.1" : address_for_others(place);
  devices.push_back(own.empty() ? Group::createDefaultDevice() : Group::createDeviceForHostname(own));
  return devices;
}

// What ranks of one job share.
struct Job {
  Place place;
  double timeout_seconds = 0;
  c10d::Store* failures = nullptr;  // where one says that it has failed; null: nobody is asked
  std::shared_ptr<OnTheWay> on_the_way = std::make_shared<OnTheWay>();
};

class Gloo final : public HostExchange {
 public:
  Gloo(c10d::Store& store, const Job& job) : Gloo(store, job, job.place.rank, job.place.size) {}

  std::unique_ptr<HostExchange> among(int rank, int size, c10d::Store& keys) override {
    return peer_call("connecting some of the ranks",
                     [&] { return std::unique_ptr<HostExchange>(new Gloo(keys, job_, rank, size)); });
  }

  std::unique_ptr<HostExchange> anew(c10d::Store& keys, bool soon) override {
    Job job = job_;
    job.failures = nullptr;
    if (soon) job.timeout_seconds = std::min(job.timeout_seconds, job.place.limit_seconds);
    return peer_call("connecting the ranks again", [&] { return std::make_unique<Gloo>(keys, job); });
  }

  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) override {
    Tensor given = from, into = to;
    std::vector<std::int64_t> even_splits;
    auto begun = std::make_unique<Works>(*this, "all-to-all");
    begun->add(group_->alltoall_base(into, given, even_splits, even_splits));
    return begun;
  }

  // Gloo's own all-gather receives into a second whole, and copies that.
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override {
    const c10::NoGradGuard no_grad;
    const std::int64_t part = share.numel();
    whole.narrow(0, group_->getRank() * part, part).copy_(share);
    auto begun = std::make_unique<Works>(*this, "all-gather");
    for (int root = 0; root < group_->getSize(); ++root) {
      std::vector<Tensor> its{whole.narrow(0, root * part, part)};
      c10d::BroadcastOptions from;
      from.rootRank = root;
      begun->add(group_->broadcast(its, from));
    }
    return begun;
  }

  Times times() const override { return {job_.on_the_way->seconds(), job_.on_the_way->waited()}; }

  // One message of a fixed length, and where a rank has more to say another one of the longest.
  std::vector<std::string> gather(const std::string& own) override {
    const std::vector<std::string> first = exchange(own, kFirst);
    std::size_t longest = 0;
    for (const std::string& one : first) longest = std::max(longest, length_of(one));
    std::vector<std::string> all = longest <= kFirst - kLength ? first : exchange(own, longest + kLength);
    for (std::string& one : all) one = one.substr(kLength, length_of(one));
    return all;
  }

 private:
  Gloo(c10d::Store& store, const Job& job, int rank, int size) : job_(job) {
    const BlockSignals blocked;  // in its threads
    keep_no_record();
    auto options = c10d::ProcessGroupGloo::Options::create(milliseconds(job.timeout_seconds));
    options->threads = 2;
    options->devices = devices_of(job.place);
    auto own_keys = c10::make_intrusive<c10d::PrefixStore>(
        "gloo", c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(&store));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(own_keys), rank, size, options);
    group_->setTimeout(milliseconds(kNoLimit));
  }

  static constexpr std::size_t kFirst = 1024, kLength = sizeof(std::uint64_t);

  class Works final : public Begun {
   public:
    Works(Gloo& all, const char* what) : all_(all), what_(what) {}
    void add(c10::intrusive_ptr<c10d::Work> work) { works_.push_back(all_.begun(std::move(work))); }
    void wait() override {
      for (const auto& work : works_) all_.wait(what_, *work);
    }

   private:
    Gloo& all_;
    const char* what_;
    std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  };

  c10::intrusive_ptr<c10d::Work> begun(c10::intrusive_ptr<c10d::Work> work) {
    job_.on_the_way->begin();
    work->getFuture()->addCallback([counted = job_.on_the_way](auto&) { counted->end(); });
    return work;
  }

  static std::size_t length_of(const std::string& message) {
    std::uint64_t length = 0;
    std::memcpy(&length, message.data(), kLength);
    return length;
  }

  // As much of each rank's length and text as `bytes` hold.
  std::vector<std::string> exchange(const std::string& own, std::size_t bytes) {
    const auto ranks = static_cast<std::size_t>(group_->getSize());
    Tensor given = at::zeros({static_cast<std::int64_t>(bytes)}, at::kByte),
           all = at::empty({static_cast<std::int64_t>(bytes * ranks)}, at::kByte);
    const std::uint64_t length = own.size();
    const std::span<std::byte> message = host::mutable_bytes(given);
    std::memcpy(message.data(), &length, kLength);
    std::memcpy(message.data() + kLength, own.data(), std::min(own.size(), bytes - kLength));
    wait("all-gather", *begun(group_->_allgather_base(all, given)));
    const std::span<const std::byte> got = host::bytes(all);
    std::vector<std::string> made;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      made.emplace_back(reinterpret_cast<const char*>(got.data()) + rank * bytes, bytes);
    return made;
  }

  void wait(const char* what, c10d::Work& work) {
    const sections::Timed section(sections::Section::ranks);
    bool failed = false;
    peer_call(what, [&] { return job_.on_the_way->wait(work, [&] { look_for_failures(failed); }), 0; });
  }

  // What the one that has failed has sent before comes still: it is waited for once more.
  void look_for_failures(bool& failed) const {
    if (failed) throw Error(kFailedElsewhere, "another rank has failed");
    failed = job_.failures && job_.failures->check({kFailedKey});
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  const Job job_;
};

}  // namespace

std::unique_ptr<HostExchange> join_by_gloo(c10d::Store& store, const Place& place, double timeout_seconds) {
  return peer_call("connecting the ranks", [&] {
    return std::make_unique<Gloo>(store, Job{.place = place, .timeout_seconds = timeout_seconds, .failures = &store});
  });
}

}  // namespace hone::dist
