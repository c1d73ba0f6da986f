// Processes.
#include "dist/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/signals.h"
#include "dist/store.h"
#include "dist/watchdog.h"
#include "hone/error.h"

namespace hone::dist {
namespace {

constexpr int kNotStarted = 127, kResumable = 75, kPeer = static_cast<int>(ErrorKind::peer);
constexpr double kLook = 0.1;  // seconds between looks at what has ended

struct Child {
  int rank = 0;
  pid_t pid = -1;
  std::optional<int> status;  // of waitpid
  bool stands_still = false;  // stopped by a signal
};

bool ended_well(int status) {
  return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kResumable);
}

std::string fate_of(const Child& child) {
  const int status = *child.status;
  const std::string who = fmt::format("rank {} (process {})", child.rank, child.pid);
  if (WIFSIGNALED(status))
    return fmt::format("{} was killed by signal {} ({})", who, WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("{} ended with exit code {}", who, WEXITSTATUS(status));
}

bool is_ignored(int number) {
  struct sigaction now{};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Signals come to the loop below alone, also in threads that libraries start.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set_, number);
    if (!is_ignored(SIGHUP)) sigaddset(&set_, SIGHUP);  // as nohup has it, for the ranks, too
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    struct sigaction standard{};  // a program that ignores it hands that on, and nobody is told how a child has ended
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &children_before_);
  }
  ~Signals() {
    sigaction(SIGCHLD, &children_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  const sigset_t& before() const { return before_; }
  // Nothing: none came in time.
  std::optional<siginfo_t> wait(double seconds) const {
    const timespec time{static_cast<time_t>(seconds),
                        static_cast<long>((seconds - static_cast<time_t>(seconds)) * 1e9)};
    siginfo_t info{};
    return sigtimedwait(&set_, &info, &time) > 0 ? std::optional(info) : std::nullopt;
  }

 private:
  sigset_t set_, before_;
  struct sigaction children_before_{};
};

// The environment of one rank, as execve() takes it.
class RankEnvironment {
 public:
  RankEnvironment(const std::map<std::string, std::string>& own) {
    for (char** entry = environ; *entry; ++entry) {
      const std::string text = *entry;
      if (!own.contains(text.substr(0, text.find('=')))) texts_.push_back(text);
    }
    for (const auto& [name, value] : own) texts_.push_back(name + "=" + value);
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char** get() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options), store_(Store::serve("127.0.0.1", 0)) {}
  ~Launcher() { tell(SIGKILL); }

  int run() {
    for (int rank = 0; rank < options_.ranks && !lost_ && told_.empty(); ++rank) {
      children_.push_back(start(rank));
      look(0);
    }
    starts_ = false;
    while (left() > 0) {
      look(kLook);
      hurry();
    }
    return exit_code();
  }

 private:
  // At what has come meanwhile, or comes within these seconds.
  void look(double seconds) {
    for (auto info = signals_.wait(seconds); info; info = signals_.wait(0))
      if (info->si_signo != SIGCHLD) pass_on(*info);
    reap();
  }

  std::string threads() const {
    const char* given = std::getenv("OMP_NUM_THREADS");
    if (options_.threads == 0 && given) return given;
    return std::to_string(options_.threads > 0 ? options_.threads
                                               : std::max(1, threads_by_core(cpus()) / options_.ranks));
  }

  Child start(int rank) {
    std::map<std::string, std::string> own{{"RANK", std::to_string(rank)},
                                           {"LOCAL_RANK", std::to_string(rank)},
                                           {"WORLD_SIZE", std::to_string(options_.ranks)},
                                           {"LOCAL_WORLD_SIZE", std::to_string(options_.ranks)},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", std::to_string(store_.port())},
                                           {"HONE_STORE", "launcher"},
                                           {"OMP_NUM_THREADS", threads()}};
    if (options_.limit_seconds > 0)
      own["HONE_RANK_TIMEOUT"] = std::to_string(static_cast<int>(options_.limit_seconds));
    RankEnvironment environment(own);
    std::vector<std::string> words = options_.command;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child < 0)
      throw Error(ErrorKind::peer, fmt::format("rank {}: cannot be started: {}", rank, std::strerror(errno)));
    if (child > 0) return {rank, child, {}};
    // From here on nothing that takes a lock: other threads' are as they were.
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // until its watchdog looks (Session::join)
    if (getppid() != parent) _exit(kPeer);
    std::signal(SIGUSR1, SIG_IGN);  // until there is something to save
    die_of_stop_signals();          // the launcher's handlers would speak for it
    pthread_sigmask(SIG_SETMASK, &signals_.before(), nullptr);
    if (rank > 0)
      if (const int nothing = open("/dev/null", O_RDONLY); nothing >= 0) dup2(nothing, STDIN_FILENO);
    execve(arguments[0], arguments.data(), environment.get());
    _exit(kNotStarted);
  }

  std::int64_t left() const {
    return std::count_if(children_.begin(), children_.end(), [](const Child& one) { return !one.status; });
  }

  // `times`: that the launcher was told.
  void tell(int signal, int times = 1) const {
    sigval value{};
    value.sival_int = times;
    for (const Child& one : children_)
      if (!one.status && one.pid > 0) sigqueue(one.pid, signal, value);
  }

  // The terminal has told the whole process group already, but for who has been started since.
  void pass_on(const siginfo_t& info) {
    if (info.si_signo != SIGUSR1) told_.insert(info.si_signo);
    const bool counts = info.si_signo == SIGINT || info.si_signo == SIGTERM;
    if (info.si_code != SI_KERNEL || starts_) tell(info.si_signo, counts ? ++times_ : 1);
  }

  // Before it could hear of signals.
  bool was_stopped_early(int status) const { return WIFSIGNALED(status) && told_.contains(WTERMSIG(status)); }
  // Because it was told twice.
  bool was_stopped_at_once(int status) const { return WIFEXITED(status) && told_.contains(WEXITSTATUS(status) - 128); }
  bool was_stopped(int status) const { return was_stopped_early(status) || was_stopped_at_once(status); }

  void reap() {
    for (Child& one : children_) {
      int status = 0;
      if (one.status || waitpid(one.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != one.pid) continue;
      one.stands_still = WIFSTOPPED(status);
      if (one.stands_still || WIFCONTINUED(status)) continue;
      one.status = status;
      if (ended_well(status) || was_stopped(status) || lost_) continue;
      lost_ = one.rank;
      lost_at_ = monotonic_seconds();
      if (!has_said_why(status)) store_.set(kLostKey, fate_of(one));
    }
  }

  // Who is left after one was lost is asked to end, and at last made to; at once who stands still and cannot hear.
  void hurry() {
    if (!lost_) return;
    const double since = monotonic_seconds() - lost_at_;
    for (const Child& one : children_)
      if (!one.status && one.stands_still) kill(one.pid, SIGKILL);
    if (since > options_.grace_seconds && asked_ < 1) asked_ = 1, tell(SIGTERM);
    if (since > 2 * options_.grace_seconds && asked_ < 2) asked_ = 2, tell(SIGKILL);
  }

  // An error, or of another rank that it has missed.
  bool has_said_why(int status) {
    if (!WIFEXITED(status)) return false;
    const bool alone = options_.ranks == 1 && WEXITSTATUS(status) != kNotStarted;
    return alone || WEXITSTATUS(status) == kPeer || store_.find(kToldKey);
  }

  int exit_code() {
    if (lost_) {
      const Child& lost = children_[static_cast<std::size_t>(*lost_)];
      if (!has_said_why(*lost.status)) log::error("{}", fate_of(lost));
      return WIFEXITED(*lost.status) ? WEXITSTATUS(*lost.status) : kPeer;
    }
    for (const Child& one : children_)
      if (was_stopped_at_once(*one.status)) return WEXITSTATUS(*one.status);
    const auto early = [&](const Child& one) { return was_stopped_early(*one.status); };
    if (std::all_of(children_.begin(), children_.end(), early))
      log::warning("stopped before the first step; the same command starts again");
    const bool stopped = std::any_of(children_.begin(), children_.end(), [&](const Child& one) {
      return early(one) || WEXITSTATUS(*one.status) == kResumable;
    });
    return stopped ? kResumable : 0;
  }

  const LaunchOptions options_;
  const Signals signals_;  // before the store's threads
  Store store_;
  std::vector<Child> children_;
  std::optional<int> lost_;  // the first rank that was
  double lost_at_ = 0;
  std::set<int> told_;  // signals that the launcher was sent to pass on
  int times_ = 0;       // that it was told to stop
  bool starts_ = true;  // ranks, still
  int asked_ = 0;
};

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.ranks < 1)
    throw Error(ErrorKind::usage, fmt::format("launch: got {} ranks, expected at least 1", options.ranks));
  return Launcher(options).run();
}

}  // namespace hone::dist
