// Processes of /bin/sh: posix_spawn, as a fork would copy the page tables of all that is trained.
#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace hone {
namespace {

constexpr double kGraceSeconds = 2;  // between SIGTERM and SIGKILL

std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> all;
  const auto is_out = [&](const std::string& name) {
    return std::find(options.without.begin(), options.without.end(), name) != options.without.end() ||
           std::any_of(options.environment.begin(), options.environment.end(),
                       [&](const auto& own) { return own.first == name; });
  };
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    if (!is_out(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : options.environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> made;
  for (std::string& text : texts) made.push_back(text.data());
  made.push_back(nullptr);
  return made;
}

bool open_pipe(PipeEnd& read, PipeEnd& write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  read.take(ends[0]);
  write.take(ends[1]);
  return true;
}

// While this lives, a reader that has gone is an error of write(), whatever the process does about SIGPIPE.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  ~NoPipeSignal() {
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, old_;
  bool was_pending_ = false;
};

constexpr int kNothing = -1;  // in place of a file: /dev/null

// What the new process is given: signals as in a fresh one, a group of its own, no files but the three.
class Spawn {
 public:
  // An input is opened before an output: where this process has no such files, no pipe's end is in another's place.
  Spawn(int input, int output, int error) {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&files_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    give(input, STDIN_FILENO, O_RDONLY);
    give(output, STDOUT_FILENO, O_WRONLY);
    if (error != STDERR_FILENO) give(error, STDERR_FILENO, O_WRONLY);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);  // before: ours are O_CLOEXEC
#endif
#endif
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  // 0, or why not.
  int start(pid_t& child, const std::string& command, const ChildOptions& options) {
    std::vector<std::string> words{"sh", "-c", command}, environment = environment_of(options);
    return posix_spawn(&child, "/bin/sh", &files_, &attributes_, pointers(words).data(), pointers(environment).data());
  }

 private:
  void give(int file, int as, int mode) {
    if (file == kNothing)
      posix_spawn_file_actions_addopen(&files_, as, "/dev/null", mode, 0);
    else
      posix_spawn_file_actions_adddup2(&files_, file, as);
  }
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t files_;
};

constexpr std::size_t kPiece = 1 << 16;

bool must_wait() { return errno == EAGAIN || errno == EINTR; }

std::string not_started(int error) { return fmt::format("cannot be started: {}", std::strerror(error)); }

}  // namespace

void PipeEnd::shut() {
  if (is_open()) close(fd_);
  fd_ = -1;
}

void PipeEnd::never_wait() const { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

bool Talk::open() { return open_pipe(its_input_, to_it_) && open_pipe(from_it_, its_output_); }

void Talk::has_started() {
  its_input_.shut();
  its_output_.shut();
  to_it_.never_wait();
  from_it_.never_wait();
  if (input_.empty() && input_is_ == Input::all) to_it_.shut();
}

void Talk::pass(std::chrono::milliseconds most) {
  const int to_it = input_.empty() ? -1 : to_it_.fd();  // those that are shut, or have nothing to do, are passed over
  pollfd ends[] = {{to_it, POLLOUT, 0}, {from_it_.fd(), POLLIN, 0}};
  if (poll(ends, 2, static_cast<int>(most.count())) <= 0) return;
  if (to_it_.is_open() && !input_.empty()) write_some();
  if (from_it_.is_open()) read_some();
}

void Talk::drain() {
  while (from_it_.is_open() && !is_too_much() && read_some()) {
  }
}

void Talk::write_some() {
  const NoPipeSignal guard;
  const ssize_t written = write(to_it_.fd(), input_.data(), std::min(input_.size(), kPiece));
  const bool is_over = written < 0 && !must_wait();  // it has read enough
  if (written > 0) input_.remove_prefix(static_cast<std::size_t>(written));
  if (is_over || (input_.empty() && input_is_ == Input::all)) to_it_.shut();
}

bool Talk::read_some() {
  char piece[kPiece];
  ssize_t got = 0;
  while ((got = read(from_it_.fd(), piece, sizeof piece)) < 0 && errno == EINTR) {
  }
  if (got > 0) output_.append(piece, static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && !must_wait())) from_it_.shut();
  return got > 0;
}

std::string Guard::start() {
  PipeEnd its_input;
  if (!open_pipe(its_input, to_it_)) return not_started(errno);
  // A group, then a line where there is nothing to do any more. TERM comes before KILL, as where this process ends it.
  const std::string command = fmt::format(
      "read -r group || exit; read -r end && exit; kill -s TERM -- -$group; sleep {:g}; kill -s KILL -- -$group",
      kGraceSeconds);
  const int error = Spawn(its_input.fd(), kNothing, kNothing).start(process_, command, {});
  if (error) process_ = 0;
  return error ? not_started(error) : "";
}

void Guard::tell(const std::string& line) const {
  const NoPipeSignal guard;
  while (write(to_it_.fd(), line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

void Guard::watch(pid_t group) {
  tell(std::to_string(group) + "\n");
  watches_ = true;
}

Guard::~Guard() {
  if (process_ == 0) return;
  if (watches_) tell("end\n");  // else the shell has no group, and ends with its input
  to_it_.shut();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string start_shell(pid_t& child, Guard& guard, const std::string& command, const ChildOptions& options,
                        Talk* talk) {
  if (talk && !talk->open()) return not_started(errno);
  if (std::string failure = guard.start(); !failure.empty()) return failure;
  Spawn spawn(talk ? talk->its_input() : kNothing, talk ? talk->its_output() : STDERR_FILENO, STDERR_FILENO);
  if (const int error = spawn.start(child, command, options)) return not_started(error);
  guard.watch(child);
  if (talk) talk->has_started();
  return "";
}

std::optional<int> wait_for(pid_t child, double seconds, const std::function<bool()>& given_up, Talk* talk) {
  const Stopwatch watch;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return 0;  // somebody else has taken it: nothing is known of it
    if (watch.seconds() > seconds || (given_up && given_up())) return std::nullopt;
    if (talk)
      talk->pass(pause);
    else
      std::this_thread::sleep_for(pause);
  }
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  const int error = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
  return error != 0 ? errno != EINTR : info.si_pid == child;
}

void end_with_all_it_started(pid_t child) {
  kill(-child, SIGTERM);
  if (!wait_for(child, kGraceSeconds)) {
    kill(-child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  } else {
    kill(-child, SIGKILL);  // what it has left behind
  }
}

std::string told_of_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace hone
