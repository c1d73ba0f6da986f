// Signal handlers that only set flags and wake an eventfd.
#include "base/signals.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/log.h"
#include "base/progress.h"

namespace hone {
namespace {

// Lock-free atomics: as safe in a handler as sig_atomic_t, and other threads may read them as well.
std::atomic<int> stop_signal{0};
std::atomic<int> own_wishes{0};  // SIGINT and SIGTERM that came to this process itself
std::atomic<int> save_requests{0};
std::atomic<int> event_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free);

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE, SIGXFSZ};
struct sigaction old_actions[std::size(kSignals)];
char notice_line[200];  // written by the handler, hence made beforehand
std::atomic<int> notice_size{0};
std::atomic<bool> installed{false};

void wake() {
  const std::uint64_t one = 1;
  const int fd = event_fd.load();
  if (fd >= 0 && ::write(fd, &one, sizeof one) < 0) {
    // A full counter still wakes; nothing else can be done in a handler.
  }
}

std::string_view name_of(int number) {
  return number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : number == 0 ? "" : "SIGTERM";
}

void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {
    // Nobody to tell.
  }
}

// What a launcher passes on says how often it was told: who tells the whole process group tells both of them.
void on_stop(int number, siginfo_t* info, void*) {
  const int saved_errno = errno;
  int before = 0;
  const bool passed_on = info->si_code == SI_QUEUE;
  const int wishes = passed_on ? info->si_value.sival_int : number == SIGHUP ? 0 : ++own_wishes;
  if (!stop_signal.compare_exchange_strong(before, number)) {
    if (number != SIGHUP && before != SIGHUP && wishes > 1) _exit(128 + number);
    if (before == SIGHUP) stop_signal.compare_exchange_strong(before, number);  // somebody's first wish
    errno = saved_errno;
    return;
  }
  if (const int size = notice_size.load(); size > 0) say({notice_line, static_cast<std::size_t>(size)});
  wake();
  errno = saved_errno;
}

void on_save(int) {
  const int saved_errno = errno;
  save_requests.store(1);
  wake();
  errno = saved_errno;
}

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<bool> ends_with_json{false}, ends_on_clear_line{false};

void on_end(int number) {
  const bool json = ends_with_json.load();
  if (ends_on_clear_line.load()) say("\r\x1b[K");
  if (json) say(R"({"error":{"kind":"stopped","exit_code":75,"message":")");
  say("stopped by ");
  say(name_of(number));
  say(json ? "\"}}\n" : "\n");
  _exit(static_cast<int>(kStopped));
}

void on_stop_signals(void (*handler)(int)) noexcept {
  for (const int number : kStopSignals) {
    struct sigaction action{}, before{};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    action.sa_handler = handler;
    for (const int other : kStopSignals) sigaddset(&action.sa_mask, other);  // one of them speaks
    sigaction(number, &action, nullptr);
  }
}

// On a terminal the line takes the place of the progress line, which is drawn anew below it.
void make_notice(std::string_view notice) {
  std::string line;
  if (!notice.empty() && log::level() <= log::Level::info)
    line = (use_escapes() ? "\r\x1b[K" : "") + log::line(log::Level::info, notice);
  HONE_ASSERT(line.size() <= sizeof notice_line);
  notice_size = 0;
  std::copy(line.begin(), line.end(), notice_line);
  notice_size = static_cast<int>(line.size());
}

}  // namespace

StopSignal::StopSignal(std::string_view notice) {
  if (installed.exchange(true))
    throw Error(ErrorKind::usage, "signals: handled by another run of this process; expected one at a time")
        .hint("TrainOptions::handle_signals = false is for a run beside others");
  reset();
  make_notice(notice);
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    const int number = kSignals[i];
    struct sigaction action{};
    if (number == SIGHUP && sigaction(number, nullptr, &old_actions[i]) == 0 && old_actions[i].sa_handler == SIG_IGN)
      continue;
    action.sa_flags = SA_RESTART;
    if (number == SIGUSR1 || number == SIGPIPE || number == SIGXFSZ)
      action.sa_handler = number == SIGUSR1 ? on_save : SIG_IGN;
    else
      action.sa_sigaction = on_stop, action.sa_flags |= SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, &old_actions[i]);
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &old_actions[i], nullptr);
  const int fd = event_fd.exchange(-1);
  if (fd >= 0) ::close(fd);
  installed = false;
}

bool StopSignal::stop_requested() noexcept { return stop_signal.load() != 0; }

void StopSignal::check(const std::string& doing) {
  if (installed && stop_requested()) throw Error(kStopped, "stopped by " + stop_name() + " while " + doing);
}

int StopSignal::stop_number() noexcept { return stop_signal.load(); }

std::string StopSignal::stop_name() { return std::string(name_of(stop_signal.load())); }

bool StopSignal::take_save_request() noexcept { return save_requests.exchange(0) != 0; }
int StopSignal::wake_fd() noexcept { return event_fd.load(); }

void StopSignal::reset() noexcept {
  stop_signal = 0;
  own_wishes = 0;
  save_requests = 0;
}

void end_at_stop_signals(bool json, bool clear_line) noexcept {
  ends_with_json = json;
  ends_on_clear_line = clear_line;
  on_stop_signals(on_end);
}

void die_of_stop_signals() noexcept { on_stop_signals(SIG_DFL); }

void pass_over_save_signals() noexcept {
  struct sigaction action{}, before{};
  if (sigaction(SIGUSR1, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  action.sa_handler = [](int) {};  // a program that is started would go on to ignore it, but has no handlers
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

void ignore_write_signals() noexcept {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

BlockSignals::BlockSignals() {
  static_assert(sizeof old_ >= sizeof(sigset_t) && std::is_trivially_copyable_v<sigset_t>);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&blocked, number);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  std::memcpy(old_, &old, sizeof old);
}

BlockSignals::~BlockSignals() {
  sigset_t old;
  std::memcpy(&old, old_, sizeof old);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace hone
