// Commands of the user's: what they are given, how they end, and that nothing of them stays.
#include "base/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/signals.h"
#include "harness/files.h"

namespace hone {
namespace {

class Child : public test::WithFolder {
 protected:
  std::string run(const std::string& command, const ChildOptions& options = {}) { return run_shell(command, options); }
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

}  // namespace
}  // namespace hone
