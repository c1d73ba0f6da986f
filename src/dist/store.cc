// c10d's TCPStore and Gloo.
#include "dist/store.h"

#include <ATen/ATen.h>
#include <c10/util/Flags.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "base/sections.h"
#include "base/signals.h"
#include "base/strings.h"
#include "hone/error.h"
#include "tensor/host.h"

C10_DECLARE_int(caffe2_log_level);

namespace hone::dist {

struct Store::State {
  c10::intrusive_ptr<c10d::TCPStore> store;
  std::string prefix = "hone/";
};

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

constexpr double kNoLimit = 30 * 24 * 3600.0;  // seconds

// What it has to say on stderr of a connection that fails is said by us, once.
void be_quiet() { FLAGS_caffe2_log_level = c10::GLOG_FATAL; }

// c10d asks for the name of each address that it connects to or hears of, to log it; a name server that does not answer
// makes that seconds, of this machine's own address, too. While one of these lives nobody is asked: glibc reads that
// from the environment when a thread first looks for a name, and keeps it.
class NoNameServer {
 public:
  explicit NoNameServer(const std::string& address) : needed_(address.starts_with("127.")) {
    const std::lock_guard lock(mutex());
    if (!needed_ || count()++ > 0) return;
    const char* before = ::getenv(kOptions);
    old() = before ? std::optional<std::string>(before) : std::nullopt;
    ::setenv(kOptions, "attempts:0", 1);
    res_init();
  }
  ~NoNameServer() {
    const std::lock_guard lock(mutex());
    if (!needed_ || --count() > 0) return;
    old() ? ::setenv(kOptions, old()->c_str(), 1) : ::unsetenv(kOptions);
    res_init();
  }
  NoNameServer(const NoNameServer&) = delete;

 private:
  static constexpr const char* kOptions = "RES_OPTIONS";
  static std::mutex& mutex() {
    static std::mutex made;
    return made;
  }
  static int& count() {
    static int made = 0;
    return made;
  }
  static std::optional<std::string>& old() {
    static std::optional<std::string> made;
    return made;
  }
  const bool needed_;
};

template <class Call>
auto peer_call(const std::string& doing, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw Error(ErrorKind::peer, fmt::format("{}: {}", doing, text.substr(0, text.find('\n'))));
  }
}

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
  void wait(c10d::Work& work) {
    const Stopwatch watch;
    work.wait();
    waited_ += watch.seconds();
  }
  double waited() const { return waited_; }
  double seconds() const {
    const std::lock_guard lock(mutex_);
    return seconds_ + (count_ > 0 ? monotonic_seconds() - since_ : 0);
  }

 private:
  mutable std::mutex mutex_;
  int count_ = 0;
  double since_ = 0, seconds_ = 0;
  double waited_ = 0;  // of the thread that trains
};

class GlooCollectives final : public Collectives {
 public:
  GlooCollectives(c10::intrusive_ptr<c10d::Store> store, const Place& place, double timeout_seconds) {
    const BlockSignals blocked;  // in its threads
    auto options = c10d::ProcessGroupGloo::Options::create(milliseconds(timeout_seconds));
    options->threads = 2;
    options->devices.push_back(place.on_one_machine() ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                                      : c10d::ProcessGroupGloo::createDefaultDevice());
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), place.rank, place.size, options);
    group_->setTimeout(milliseconds(kNoLimit));
  }
  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  // Each rank adds up one share of the elements, and gives the sums to all: by its own all-reduce Gloo adds in another
  // order on each share.
  void sum(Tensor& x) override {
    HONE_ASSERT(x.is_contiguous());
    const at::NoGradGuard no_grad;
    const std::int64_t ranks = size(), share = (x.numel() + ranks - 1) / ranks;
    if (share == 0) return;
    const bool even = share * ranks == x.numel();
    Tensor whole = even ? x.view(-1) : at::zeros({share * ranks}, x.options());
    if (!even) whole.narrow(0, 0, x.numel()).copy_(x.view(-1));
    const Tensor total = at::empty({share}, x.options());
    begin_sum(whole, total)->wait();
    begin_gather(total, whole)->wait();
    if (!even) x.view(-1).copy_(whole.narrow(0, 0, x.numel()));
  }

  std::unique_ptr<Begun> begin_sum(const Tensor& whole, const Tensor& share) override {
    HONE_ASSERT(whole.is_contiguous() && share.is_contiguous() && whole.numel() == size() * share.numel());
    Tensor got = at::empty({size(), share.numel()}, whole.options());
    Tensor into = got.view(-1), from = whole.view(-1);
    std::vector<std::int64_t> even_splits;
    bytes_ += whole.nbytes() - share.nbytes();
    return std::make_unique<Summing>(*this, group_->alltoall_base(into, from, even_splits, even_splits), got, share);
  }

  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override {
    HONE_ASSERT(whole.is_contiguous() && share.is_contiguous() && whole.numel() == size() * share.numel());
    const at::NoGradGuard no_grad;
    const Tensor all = whole.view(-1).view(at::kByte), own = share.view(-1).view(at::kByte);
    all.narrow(0, rank() * own.numel(), own.numel()).copy_(own);
    bytes_ += static_cast<std::uint64_t>(size() - 1) * share.nbytes();
    auto begun = std::make_unique<Gathering>(*this);
    // Gloo's own all-gather receives into a second whole, and copies that.
    for (int root = 0; root < size(); ++root) {
      std::vector<Tensor> part{all.narrow(0, root * own.numel(), own.numel())};
      c10d::BroadcastOptions from;
      from.rootRank = root;
      begun->add(group_->broadcast(part, from));
    }
    return begun;
  }
  Traffic traffic() const override { return {bytes_, on_the_way_->seconds(), on_the_way_->waited()}; }

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
  static constexpr std::size_t kFirst = 1024, kLength = sizeof(std::uint64_t);

  class Gathering final : public Begun {
   public:
    explicit Gathering(GlooCollectives& all) : all_(all) {}
    void add(c10::intrusive_ptr<c10d::Work> work) { works_.push_back(all_.begun(std::move(work))); }
    void wait() override {
      for (const auto& work : works_) all_.wait("all-gather", *work);
    }

   private:
    GlooCollectives& all_;
    std::vector<c10::intrusive_ptr<c10d::Work>> works_;  // of each rank's part
  };

  // In rank order.
  class Summing final : public Begun {
   public:
    Summing(GlooCollectives& all, c10::intrusive_ptr<c10d::Work> work, Tensor got, Tensor share)
        : all_(all), work_(all.begun(std::move(work))), got_(std::move(got)), share_(std::move(share)) {}
    void wait() override {
      all_.wait("all-to-all", *work_);
      const at::NoGradGuard no_grad;
      share_.copy_(got_[0]);
      for (std::int64_t rank = 1; rank < got_.size(0); ++rank) share_.add_(got_[rank]);
    }

   private:
    GlooCollectives& all_;
    c10::intrusive_ptr<c10d::Work> work_;
    Tensor got_, share_;
  };

  c10::intrusive_ptr<c10d::Work> begun(c10::intrusive_ptr<c10d::Work> work) {
    on_the_way_->begin();
    work->getFuture()->addCallback([counted = on_the_way_](auto&) { counted->end(); });
    return work;
  }

  static std::size_t length_of(const std::string& message) {
    std::uint64_t length = 0;
    std::memcpy(&length, message.data(), kLength);
    return length;
  }

  // As much of each rank's length and text as `bytes` hold.
  std::vector<std::string> exchange(const std::string& own, std::size_t bytes) {
    const auto ranks = static_cast<std::size_t>(size());
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
    peer_call(what, [&] { return on_the_way_->wait(work), 0; });
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::uint64_t bytes_ = 0;
  std::shared_ptr<OnTheWay> on_the_way_ = std::make_shared<OnTheWay>();
};

}  // namespace

void await_name(const std::string& address, double seconds) {
  const Stopwatch watch;
  for (bool told = false;; std::this_thread::sleep_for(std::chrono::milliseconds(500))) {
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(address.c_str(), nullptr, nullptr, &found);
    if (code == 0) return ::freeaddrinfo(found);
    if (watch.seconds() >= seconds)
      throw Error(ErrorKind::peer, fmt::format("MASTER_ADDR: {}: {}", hone::quoted(address), ::gai_strerror(code)))
          .hint("it is the name or the address of the machine of rank 0, the same on all ranks");
    if (told || watch.seconds() < 5) continue;
    told = true;
    log::info("waiting for the name {} (MASTER_ADDR) to be known, {:.0f} s at most", address, seconds);
  }
}

Store Store::serve(const std::string& address, int port) {
  be_quiet();
  const BlockSignals blocked;  // in its thread
  const NoNameServer no_names(address);
  Store made;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  made.state_ = std::make_shared<State>();
  try {
    made.state_->store = peer_call(fmt::format("the store at {}:{}", address, port),
                                   [&] { return c10::make_intrusive<c10d::TCPStore>(address, options); });
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("EADDRINUSE") == std::string_view::npos) throw;
    throw Error(ErrorKind::peer, fmt::format("the store at {}:{}: another program has this port", address, port))
        .hint("another MASTER_PORT, the same on all ranks");
  }
  made.find("");  // its thread has heard of an address
  return made;
}

Store Store::connect(const std::string& address, int port, double timeout_seconds) {
  be_quiet();
  const NoNameServer no_names(address);
  Store made;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_seconds);
  made.state_ = std::make_shared<State>();
  made.state_->store = peer_call(fmt::format("looking for the store at {}:{}", address, port),
                                 [&] { return c10::make_intrusive<c10d::TCPStore>(address, options); });
  return made;
}

void Store::set_job(const std::string& job) { state_->prefix = job.empty() ? "hone/" : "hone/" + job + "/"; }

int Store::port() const { return state_->store->getPort(); }

void Store::set(const std::string& key, const std::string& value) {
  peer_call("the store", [&] {
    state_->store->set(state_->prefix + key, std::vector<std::uint8_t>(value.begin(), value.end()));
    return 0;
  });
}

std::optional<std::string> Store::find(const std::string& key) {
  return peer_call("the store", [&]() -> std::optional<std::string> {
    if (!state_->store->check({state_->prefix + key})) return std::nullopt;
    const std::vector<std::uint8_t> value = state_->store->get(state_->prefix + key);
    return std::string(value.begin(), value.end());
  });
}

std::shared_ptr<Collectives> Store::join(const Place& place, double timeout_seconds) {
  const auto key = [](int rank) { return fmt::format("here/{}", rank); };
  set(key(place.rank), std::to_string(place.size));
  std::vector<std::string> all;
  for (int rank = 0; rank < place.size; ++rank) all.push_back(state_->prefix + key(rank));
  const auto come = [&](double seconds) {
    try {
      state_->store->wait(all, milliseconds(seconds));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  const auto missing = [&] {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < place.size; ++rank)
      if (!find(key(rank))) ranks.push_back(std::to_string(rank));
    return hone::join(ranks, ", ");
  };
  const auto check_sizes = [&] {
    for (int rank = 0; rank < place.size; ++rank)
      if (const auto size = find(key(rank)); size && *size != std::to_string(place.size))
        throw Error(ErrorKind::peer, fmt::format("rank {} is one of {} ranks, and rank {} one of {}", rank, *size,
                                                 place.rank, place.size))
            .hint("WORLD_SIZE must be the same on all of them");
  };
  const double silent = std::min(5.0, timeout_seconds);
  const bool all_there = come(silent);
  check_sizes();
  if (!all_there) {
    log::info("waiting for ranks {} of {} to come to {}:{}, {:.0f} s at most", missing(), place.size,
              state_->store->getHost(), port(), timeout_seconds);
    if (!come(timeout_seconds - silent))
      throw Error(ErrorKind::peer,
                  fmt::format("ranks {} of {} have not come within {:.0f} s", missing(), place.size, timeout_seconds))
          .hint(place.launcher == "hone launch"
                    ? "are their processes stopped, or is the machine too busy? hone launch --timeout waits longer"
                    : "do all of them have the same MASTER_ADDR and MASTER_PORT, and can they reach it?");
    check_sizes();
  }
  return peer_call("connecting the ranks", [&] {
    return std::make_shared<GlooCollectives>(
        c10::make_intrusive<c10d::PrefixStore>(state_->prefix + "gloo", state_->store), place, timeout_seconds);
  });
}

}  // namespace hone::dist
