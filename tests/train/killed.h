// Training in a process of its own that is killed at an operation of its files. The test program runs itself as that
// process: the test KillChild.Trains of kill_test.cc.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace hone::test {

// Exit status of the child, which trains by the recipe in this file; 0 when it came to the end, SIGKILL when it was
// killed. kill_at: the operation, -1: none.
inline int train_in_child(const std::string& recipe, std::int64_t kill_at) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("HONE_KILL_CHILD", recipe.c_str(), 1);
    setenv("HONE_KILL_AT", std::to_string(kill_at).c_str(), 1);
    if (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr)) _exit(9);
    execl("/proc/self/exe", "train_test", "--gtest_filter=KillChild.Trains", nullptr);
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) == 0 ? 0 : -WEXITSTATUS(status);
}

}  // namespace hone::test
