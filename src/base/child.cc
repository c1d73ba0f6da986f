// Commands in processes of their own: posix_spawn, as a fork would copy the page tables of all that is trained.
#include "base/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

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

// What the new process is given: signals as in a fresh one, a group of its own, no files but the three.
class Spawn {
 public:
  Spawn() {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&files_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, STDERR_FILENO, STDOUT_FILENO);
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
    return posix_spawn(&child, "/bin/sh", &files_, &attributes_, pointers(words).data(),
                       pointers(environment).data());
  }

 private:
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t files_;
};

// Its status once it has ended; nothing: it still runs after so long, or when `stopped` says so.
std::optional<int> wait_for(pid_t child, double seconds, const std::function<bool()>& stopped = {}) {
  const Stopwatch watch;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) return 0;  // somebody else has taken it: nothing is known of it
    if (watch.seconds() > seconds || (stopped && stopped())) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

std::string told(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

std::string run_shell(const std::string& command, const ChildOptions& options) {
  pid_t child = 0;
  const bool stops = options.stopped && !options.stopped();  // where that is so before, the command belongs to the end
  if (const int error = Spawn().start(child, command, options))
    return fmt::format("cannot be started: {}", std::strerror(error));
  const Stopwatch watch;
  const auto stopped = stops ? options.stopped : std::function<bool()>();
  if (const auto status = wait_for(child, options.seconds, stopped)) return told(*status);
  const bool in_time = watch.seconds() < options.seconds;
  kill(-child, SIGTERM);
  if (!wait_for(child, kGraceSeconds)) {
    kill(-child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  } else {
    kill(-child, SIGKILL);  // what it has left behind
  }
  if (in_time) return "ended, as the run was told to stop";
  return fmt::format("not done after {:g} s, so it was ended", options.seconds);
}

}  // namespace hone
