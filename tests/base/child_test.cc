// Commands of the user's: what they are given, how they end, and that nothing of them stays.
#include "base/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "base/signals.h"
#include "harness/files.h"

namespace hone {
namespace {

class Child : public test::WithFolder {
 protected:
  std::string run(const std::string& command, const ChildOptions& options = {}) { return run_shell(command, options); }
  // And no zombie that its new parent has yet to take.
  static bool is_there(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string stat;
    return std::getline(file, stat) && stat.find(") Z") == std::string::npos;
  }
  std::string written(const std::string& command, const ChildOptions& options = {}) {
    const std::filesystem::path file = folder_ / "out";
    EXPECT_EQ(run("{ " + command + "; } > " + file.string(), options), "");
    return test::content_of(file);
  }
};

TEST_F(Child, SaysHowItEnded) {
  EXPECT_EQ(run("true"), "");
  EXPECT_EQ(run("exit 3"), "exit code 3");
  EXPECT_EQ(run("kill -SEGV $$"), "ended by signal 11");
  EXPECT_EQ(run("/no/such/program 2> /dev/null"), "exit code 127");
}
TEST_F(Child, HasItsEnvironmentAndWhatIsAdded) {
  setenv("HONE_CHILD_TEST", "old", 1);
  setenv("HONE_CHILD_GONE", "there", 1);
  const ChildOptions options{{{"HONE_CHILD_TEST", "a 'b' \"c\""}}, {"HONE_CHILD_GONE"}};
  EXPECT_EQ(written("printf '%s|%s' \"$HONE_CHILD_TEST\" \"$HONE_CHILD_GONE\"", options), "a 'b' \"c\"|");
  EXPECT_EQ(written("printf '%s' \"$HONE_CHILD_GONE\""), "there");
}
TEST_F(Child, HasNoFilesOfOursAndNothingToRead) {
  const std::string path = folder_.write("held", "").string();
  const int held = open(path.c_str(), O_RDWR);  // without O_CLOEXEC, as a library may open it
  ASSERT_GE(held, 0);
  EXPECT_EQ(written("test -e /proc/self/fd/" + std::to_string(held) + " && echo open || echo closed"), "closed\n");
  EXPECT_EQ(written("cat"), "");
  close(held);
}
TEST_F(Child, IsEndedWithAllThatItStartedWhenItsTimeIsUp) {
  const std::string pids = (folder_ / "pids").string();
  const Stopwatch watch;
  const std::string said =
      run("trap '' TERM; sleep 100 & echo $! > " + pids + "; echo $$ >> " + pids + "; wait; sleep 100",
          {.seconds = 0.3});
  EXPECT_EQ(said, "not done after 0.3 s, so it was ended");
  EXPECT_LT(watch.seconds(), 30);
  std::istringstream lines(test::content_of(pids));
  for (int pid = 0, tries = 0; lines >> pid; tries = 0) {
    while (kill(pid, 0) == 0 && ++tries < 500) usleep(10000);
    EXPECT_EQ(kill(pid, 0), -1) << pid;
  }
}
TEST_F(Child, IsEndedWhenItsRunIsToStopMeanwhile) {
  int asked = 0;
  const Stopwatch watch;
  EXPECT_EQ(run("sleep 100", {.stopped = [&] { return ++asked > 2; }}), "ended, as the run was told to stop");
  EXPECT_LT(watch.seconds(), 30);
  EXPECT_EQ(run("sleep 0.05; exit 4", {.stopped = [] { return true; }}), "exit code 4");  // it was so before
}
// Of a process that is killed: what the shell has started, too, and what does not care for SIGTERM.
TEST_F(Child, DoesNotOutliveItsParent) {
  const std::string file = (folder_ / "pids").string();
  const pid_t parent = fork();
  if (parent == 0) {
    run_shell("trap '' TERM; sleep 100 & echo \"$! $$\" > " + file + ".new; mv " + file + ".new " + file +
                  "; wait; sleep 100",
              {.seconds = 100});
    _exit(0);
  }
  ASSERT_GT(parent, 0);
  for (int tries = 0; !std::filesystem::exists(file) && tries < 2000; ++tries) usleep(10000);
  std::istringstream line(test::content_of(file));
  int background = 0, shell = 0;
  line >> background >> shell;
  ASSERT_GT(background, 1);
  ASSERT_GT(shell, 1);
  EXPECT_EQ(kill(shell, 0), 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  for (const int pid : {background, shell}) {
    for (int tries = 0; is_there(pid) && tries < 2000; ++tries) usleep(10000);
    EXPECT_FALSE(is_there(pid)) << pid;
  }
}
TEST_F(Child, LeavesNoZombie) {
  for (int i = 0; i < 3; ++i) run("true");
  run("sleep 5", {.seconds = 0.05});
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}
TEST_F(Child, HasSignalsAsAFreshProcessHasThem) {
  ignore_write_signals();
  const BlockSignals blocked;
  EXPECT_EQ(run("kill -PIPE $$"), "ended by signal 13");
  EXPECT_EQ(run("kill -TERM $$"), "ended by signal 15");
}

// More than any pipe holds, both ways at once.
TEST_F(Child, ReadsAndWritesMegabytesAtOnce) {
  std::string input;
  for (int i = 0; input.size() < 8 << 20; ++i) input += std::to_string(i) + "\n";
  const ChildResult echo = run_shell("cat", {}, input);
  EXPECT_EQ(echo.failure, "");
  EXPECT_TRUE(echo.output == input);
  const ChildResult late = run_shell("head -c 3000000 /dev/zero; cat", {}, input);  // writes before it reads
  EXPECT_EQ(late.failure, "");
  EXPECT_TRUE(late.output == std::string(3000000, '\0') + input);
}
TEST_F(Child, NeedNotReadWhatItIsGiven) {
  const std::string input(4 << 20, 'x');
  const ChildResult none = run_shell("echo done", {}, input);
  EXPECT_EQ(none.failure + "|" + none.output, "|done\n");
  const ChildResult some = run_shell("head -c 3; exit 5", {}, input);
  EXPECT_EQ(some.failure + "|" + some.output, "exit code 5|xxx");
  const ChildResult nothing = run_shell("cat; echo end", {}, "");
  EXPECT_EQ(nothing.failure + "|" + nothing.output, "|end\n");
}
TEST_F(Child, IsHeardToTheEnd) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(run_shell("printf a; printf b", {}, "").output, "ab");  // and is gone
}
TEST_F(Child, ThatStopsReadingDoesNotEndThisProcess) {
  struct Default {  // as SIGPIPE has it in a process that has not thought of it
    Default() { old = signal(SIGPIPE, SIG_DFL); }
    ~Default() { signal(SIGPIPE, old); }
    void (*old)(int);
  } const as_it_comes;
  EXPECT_EQ(run_shell("exec <&-; sleep 0.2; echo ok", {}, std::string(1 << 20, 'x')).output, "ok\n");
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}
TEST_F(Child, IsEndedWhileItReadsOrWrites) {
  const Stopwatch watch;
  const ChildResult slow = run_shell("echo begun; sleep 100", {.seconds = 0.5}, std::string(1 << 20, 'x'));
  EXPECT_EQ(slow.failure + "|" + slow.output, "not done after 0.5 s, so it was ended|begun\n");
  const ChildResult endless = run_shell("yes", {.most_output = 1 << 20}, "");
  EXPECT_EQ(endless.failure, "wrote more than 1.0 MB");
  EXPECT_LT(endless.output.size(), 2u << 20);
  int asked = 0;
  EXPECT_EQ(run_shell("cat; sleep 100", {.stopped = [&] { return ++asked > 2; }}, "x").failure,
            "ended, as the run was told to stop");
  EXPECT_LT(watch.seconds(), 30);
}
TEST_F(Child, IsNotWaitedForByWhatItLeavesBehind) {
  const Stopwatch watch;
  const ChildResult result = run_shell("sleep 100 & echo $!", {.seconds = 60}, "");
  EXPECT_EQ(result.failure, "");
  EXPECT_LT(watch.seconds(), 30);
  EXPECT_EQ(kill(std::stoi(result.output), SIGKILL), 0);
}
TEST_F(Child, LeavesNoFileOpen) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  run_shell("cat", {}, "x");
  run_shell("sleep 5", {.seconds = 0.05}, "x");
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(run_shell("ls /proc/self/fd", {}, "").output, "0\n1\n2\n3\n");  // 3: the folder itself
}
// As of a service that was started without the three standard files.
TEST_F(Child, HasItsFilesWhereThisProcessHasNone) {
  const int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO);
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  const ChildResult result = run_shell("cat", {}, "text");
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  close(in);
  close(out);
  EXPECT_EQ(result.failure + "|" + result.output, "|text");
}

}  // namespace
}  // namespace hone
