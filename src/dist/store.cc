// c10d's TCPStore.
#include "dist/store.h"

#include <c10/util/Flags.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "dist/gloo.h"
#include "dist/peer_call.h"
#include "hone/error.h"

C10_DECLARE_int(caffe2_log_level);

namespace hone::dist {

struct Store::State {
  c10::intrusive_ptr<c10d::TCPStore> store;
  std::string prefix = "hone/";
};

namespace {

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

std::shared_ptr<RankCollectives> Store::join(const Place& place, double timeout_seconds) {
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
  // Kept as long as exchanges, which look into it, may be.
  const auto own = std::make_shared<c10::intrusive_ptr<c10d::Store>>(
      c10::make_intrusive<c10d::PrefixStore>(state_->prefix + "ranks", state_->store));
  std::unique_ptr<HostExchange> host = join_by_gloo(**own, place, timeout_seconds);
  return std::make_shared<RankCollectives>(place.rank, place.size, std::move(host),
                                           std::shared_ptr<c10d::Store>(own, own->get()));
}

}  // namespace hone::dist
