// c10d's TCPStore.
#include "dist/store.h"

#include <c10/util/Flags.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

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

// Of c10d's text about its socket, which ends with the system's words for it.
std::string why_not_served(std::string_view text) {
  if (text.find("EADDRINUSE") != std::string_view::npos) return "another program has this port of this machine";
  constexpr std::string_view kSystem = ", message: ";
  text = text.substr(0, text.find('\n'));
  if (const auto at = text.find(kSystem); at != std::string_view::npos) text.remove_prefix(at + kSystem.size());
  return fmt::format("cannot be listened at: {}", text);
}

// A call of the store, whose text of what went wrong is of sockets.
template <class Call>
auto asked(const c10d::TCPStore& store, const Call& call) {
  try {
    return call();
  } catch (const std::exception&) {
    throw Error(ErrorKind::peer, fmt::format("the store at {}:{}: does not answer any more", store.getHost(),
                                             store.getPort()))
        .hint("rank 0, or the launcher that served it, has ended: what that one said last tells why");
  }
}

// c10d waits without limit for the first word of a program that takes a connection and says nothing: who waits for that
// is left behind. It takes up to twice the limit where nobody takes the connection.
c10::intrusive_ptr<c10d::TCPStore> connected(const std::string& address, const c10d::TCPStoreOptions& options) {
  std::packaged_task<c10::intrusive_ptr<c10d::TCPStore>()> task([address, options] {
    const NoNameServer no_names(address);
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  });
  auto made = task.get_future();
  const BlockSignals blocked;  // in the thread
  std::thread thread(std::move(task));
  if (made.wait_for(2 * options.timeout + std::chrono::seconds(1)) == std::future_status::ready) {
    thread.join();
    return made.get();
  }
  thread.detach();
  throw std::runtime_error("no answer");
}

}  // namespace

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
    made.state_->store = c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::peer, fmt::format("MASTER_PORT: {}: {}", port, why_not_served(error.what())))
        .hint("another MASTER_PORT, the same on all ranks");
  }
  made.find("");  // its thread has heard of an address
  return made;
}

Store Store::connect(const std::string& address, int port, double timeout_seconds) {
  be_quiet();
  Store made;
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = milliseconds(timeout_seconds);
  made.state_ = std::make_shared<State>();
  made.state_->store = peer_call(fmt::format("looking for the store at {}:{}", address, port),
                                 [&] { return connected(address, options); });
  return made;
}

void Store::set_job(const std::string& job) { state_->prefix = job.empty() ? "hone/" : "hone/" + job + "/"; }

int Store::port() const { return state_->store->getPort(); }

void Store::set(const std::string& key, const std::string& value) {
  asked(*state_->store, [&] {
    state_->store->set(state_->prefix + key, std::vector<std::uint8_t>(value.begin(), value.end()));
    return 0;
  });
}

std::optional<std::string> Store::find(const std::string& key) {
  return asked(*state_->store, [&]() -> std::optional<std::string> {
    if (!state_->store->check({state_->prefix + key})) return std::nullopt;
    const std::vector<std::uint8_t> value = state_->store->get(state_->prefix + key);
    return std::string(value.begin(), value.end());
  });
}

bool Store::answers() {
  try {
    find("");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string Store::set_once(const std::string& key, const std::string& value) {
  return asked(*state_->store, [&] {
    const std::vector<std::uint8_t> now =
        state_->store->compareSet(state_->prefix + key, {}, std::vector<std::uint8_t>(value.begin(), value.end()));
    return std::string(now.begin(), now.end());
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
      c10::make_intrusive<c10d::PrefixStore>(state_->prefix + kOfRanks, state_->store));
  std::unique_ptr<HostExchange> host = join_by_gloo(**own, place, timeout_seconds);
  return std::make_shared<RankCollectives>(place.rank, place.size, std::move(host),
                                           std::shared_ptr<c10d::Store>(own, own->get()));
}

}  // namespace hone::dist
