// Where the ranks of a job meet.
#include "dist/meeting.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/strings.h"
#include "dist/watchdog.h"
#include "hone/error.h"

namespace hone::dist {
namespace {

constexpr double kQuiet = 5;     // seconds until it is said what is waited for
constexpr double kAttempt = 10;  // of a connection
constexpr double kOwn = 10;      // for rank 0 to reach what it serves itself
constexpr int kWrongAnswers = 2, kProbe = 2000;  // the latter in milliseconds

bool serves(const Place& place) { return !place.store_is_served && place.rank == 0; }

const char* server_of(const Place& place) { return place.store_is_served ? "the launcher's store" : "rank 0"; }

std::string rank_key(int rank) { return fmt::format("rank/{}", rank); }

// Whether some program listens there.
bool takes_connections(const Place& place) {
  addrinfo asked{}, *found = nullptr;
  asked.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &asked, &found) != 0) return false;
  bool taken = false;
  for (const addrinfo* one = found; one && !taken; one = one->ai_next) {
    const int socket = ::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    pollfd ready{socket, POLLOUT, 0};
    taken = ::connect(socket, one->ai_addr, one->ai_addrlen) == 0 ||
            (errno == EINPROGRESS && ::poll(&ready, 1, kProbe) == 1 &&
             ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
    ::close(socket);
  }
  ::freeaddrinfo(found);
  return taken;
}

Error not_reached(const Place& place, double seconds) {
  const std::string address = hone::quoted(place.address);
  if (serves(place))
    return Error(ErrorKind::peer,
                 fmt::format("MASTER_ADDR: {}: what this process, rank 0, serves at port {} (MASTER_PORT) is not to be "
                             "reached there; expected a name or an address of this machine",
                             address, place.port))
        .hint(fmt::format("on all ranks the machine of the process with {}=0, which is {}", place.rank_variable,
                          host_name()));
  return Error(ErrorKind::peer, fmt::format("MASTER_ADDR: {}: {} has not been found there, at port {} (MASTER_PORT), "
                                            "within {:.0f} s",
                                            address, server_of(place), place.port, seconds))
      .hint(fmt::format("is the process with {}=0 started, are MASTER_ADDR, its machine, and MASTER_PORT the same on "
                        "all ranks, and can this machine reach that one?",
                        place.rank_variable));
}

Error wrong_answer(const Place& place) {
  return Error(ErrorKind::peer, fmt::format("MASTER_PORT: {}: another program than {} is at {} (MASTER_ADDR)",
                                            place.port, server_of(place), hone::quoted(place.address)))
      .hint("MASTER_ADDR is the machine of rank 0, MASTER_PORT one that is free there, both the same on all ranks");
}

Error rank_is_taken(const Place& place, const std::string& owner) {
  return Error(ErrorKind::peer, fmt::format("{}: got {}, which {} has, too; expected another one for each process that "
                                            "meets at {}:{}", place.rank_variable, place.rank, owner, place.address,
                                            place.port))
      .hint(fmt::format("0 to {}, each once; two jobs that meet on one machine need a MASTER_PORT each",
                        place.size - 1));
}

// Whether the port is that of another process with this rank, which may say so in a moment.
void look_for_owner(const Place& place) {
  std::optional<std::string> owner;
  try {
    Store other = Store::connect("127.0.0.1", place.port, 1);
    other.set_job(place.job);
    for (const Stopwatch watch; !owner && watch.seconds() < 1;
         std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      owner = other.find(rank_key(place.rank));
  } catch (const Error&) {  // nobody of ours
  }
  if (owner) throw rank_is_taken(place, *owner);
}

}  // namespace

void await_name(const Place& place, double seconds) {
  const Stopwatch watch;
  for (bool told = false;; std::this_thread::sleep_for(std::chrono::milliseconds(500))) {
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(place.address.c_str(), nullptr, nullptr, &found);
    if (code == 0) return ::freeaddrinfo(found);
    if (watch.seconds() >= seconds)
      throw Error(ErrorKind::peer,
                  fmt::format("MASTER_ADDR: {}: {}", hone::quoted(place.address), ::gai_strerror(code)))
          .hint("it is the name or the address of the machine of rank 0, the same on all ranks");
    if (told || watch.seconds() < kQuiet) continue;
    told = true;
    log::info("waiting for the name {} (MASTER_ADDR) to be known, {:.0f} s at most", place.address, seconds);
  }
}

std::optional<Store> maybe_serve(const Place& place) {
  if (!serves(place)) return std::nullopt;
  try {  // at all addresses of this machine; connect() sees whether MASTER_ADDR is one
    return Store::serve("127.0.0.1", place.port);
  } catch (const Error&) {
    look_for_owner(place);
    throw;
  }
}

Store connect(const Place& place, double seconds) {
  if (serves(place)) seconds = std::min(seconds, kOwn);
  const Stopwatch watch;
  int wrong = 0;  // attempts that some program took, but no store
  for (double attempt = kQuiet;; attempt = kAttempt) {
    try {
      const double left = std::max(1.0, seconds - watch.seconds());
      Store store = Store::connect(place.address, place.port, std::min(attempt, left));
      store.set_job(place.job);
      return store;
    } catch (const Error&) {
      wrong = !serves(place) && takes_connections(place) ? wrong + 1 : 0;
    }
    if (wrong == kWrongAnswers) throw wrong_answer(place);
    if (watch.seconds() >= seconds) throw wrong > 0 ? wrong_answer(place) : not_reached(place, seconds);
    if (attempt == kQuiet)
      log::info("looking for {} at {}:{} (MASTER_ADDR, MASTER_PORT), {:.0f} s at most", server_of(place), place.address,
                place.port, seconds);
  }
}

void claim_rank(Store& store, const Place& place) {
  const std::string own = fmt::format("process {} of {}", ::getpid(), host_name()),
                    owner = store.set_once(rank_key(place.rank), own);
  if (owner == own) return;
  const Error error = rank_is_taken(place, owner);
  // A job that is whole goes on without the one too many; one that is not would wait in vain.
  bool whole = true;
  for (int rank = 0; rank < place.size; ++rank) whole = whole && store.find(rank_key(rank));
  if (!whole && !store.find(kToldKey))
    store.set(kToldKey, fmt::format("{} {}", static_cast<int>(error.kind()), error.what()));
  throw error;
}

}  // namespace hone::dist
