// The first signal asks, the second ends; handlers survive a storm.
#include "base/signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "harness/errors.h"
#include "harness/scale.h"

namespace hone {
namespace {

TEST(StopSignal, TheFirstAsksAndIsNamed) {
  const StopSignal signals;
  EXPECT_FALSE(StopSignal::stop_requested());
  raise(SIGTERM);
  EXPECT_TRUE(StopSignal::stop_requested());
  EXPECT_EQ(StopSignal::stop_name(), "SIGTERM");
  pollfd wake{StopSignal::wake_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&wake, 1, 0), 1);
}

TEST(StopSignal, ASecondOneAtATimeIsAnErrorThatSaysWhatToDo) {
  const StopSignal signals;
  EXPECT_HONE_ERROR(StopSignal(), usage, "expected one at a time\n  hint: TrainOptions::handle_signals = false");
  raise(SIGTERM);
  EXPECT_TRUE(StopSignal::stop_requested());  // the first one is as it was
}

TEST(StopSignal, SaveRequestsAreTakenOnce) {
  const StopSignal signals;
  raise(SIGUSR1);
  raise(SIGUSR1);
  EXPECT_TRUE(StopSignal::take_save_request());
  EXPECT_FALSE(StopSignal::take_save_request());
  EXPECT_FALSE(StopSignal::stop_requested());
}

TEST(StopSignal, TheSecondEndsAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignal signals;
    raise(SIGINT);
    raise(SIGINT);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
}

// Neither before there is anything to save, nor after it; who is started by the process is ended as ever.
TEST(SaveSignals, ThatNobodyCanFollowEndNobody) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGUSR1, SIG_DFL);
    pass_over_save_signals();
    raise(SIGUSR1);
    { const StopSignal signals; }
    raise(SIGUSR1);
    _exit(system("kill -USR1 $$") == SIGUSR1 ? 3 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(SaveSignals, ThatWereIgnoredStayIgnored) {
  struct sigaction ignore{}, old{}, during{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGUSR1, &ignore, &old);
  pass_over_save_signals();
  sigaction(SIGUSR1, &old, &during);
  EXPECT_EQ(during.sa_handler, SIG_IGN);
}

// A terminal that closes sends it more than once, and the system SIGTERM after it.
TEST(StopSignal, AHangUpAsksAndNeverEndsAtOnce) {
  for (const auto& numbers :
       {std::vector{SIGHUP, SIGHUP}, {SIGTERM, SIGHUP}, {SIGHUP, SIGTERM, SIGHUP}, {SIGINT, SIGHUP}}) {
    const StopSignal signals;
    for (const int number : numbers) raise(number);
    EXPECT_TRUE(StopSignal::stop_requested());
  }
}

TEST(StopSignal, AHangUpThatWasIgnoredStaysIgnored) {
  struct sigaction ignore{}, old{}, during{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &old);
  {
    const StopSignal signals;
    raise(SIGHUP);
    EXPECT_FALSE(StopSignal::stop_requested());
    sigaction(SIGHUP, nullptr, &during);
  }
  sigaction(SIGHUP, &old, nullptr);
  EXPECT_EQ(during.sa_handler, SIG_IGN);
}

// What a child process wrote to stderr, and how it ended.
template <class Work>
std::pair<std::string, int> in_child(Work&& work) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(ends[0], said.data(), said.size()))));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {said, status};
}

TEST(StopSignal, TheFirstSaysWhatHappensNow) {
  const auto [said, status] = in_child([] {
    const StopSignal signals("stopping soon");
    raise(SIGTERM);
  });
  EXPECT_EQ(said, "stopping soon\n");
  EXPECT_EQ(status, 0);
}

TEST(StopSignal, CheckNamesTheSignalAndTheWork) {
  {
    const StopSignal signals;
    StopSignal::check("reading");
    raise(SIGINT);
    try {
      StopSignal::check("reading");
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), 75);
      EXPECT_STREQ(error.what(), "stopped by SIGINT while reading");
    }
  }
  StopSignal::check("reading");  // what comes afterwards in this process is not stopped
}

TEST(StopSignal, AFileBeyondTheLimitIsAnErrorNotASignal) {
  const auto [said, status] = in_child([] {
    const StopSignal signals;
    const rlimit little{1, 1};
    setrlimit(RLIMIT_FSIZE, &little);
    char name[] = "/tmp/hone-limit-XXXXXX";
    const int file = mkstemp(name);
    unlink(name);
    errno = 0;
    const bool refused = write(file, "a", 1) == 1 && write(file, "b", 1) < 0 && errno == EFBIG;
    _exit(refused ? 42 : 43);
  });
  ASSERT_TRUE(WIFEXITED(status)) << "killed by " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(StopSignal, TheOldHandlersComeBack) {
  struct sigaction before{}, after{};
  sigaction(SIGTERM, nullptr, &before);
  {
    const StopSignal signals;
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(StopSignal, TenThousandSignalsDoNoHarm) {
  const StopSignal signals;
  const pid_t self = getpid();
  std::thread storm([&] {
    for (int i = 0; i < 10000; ++i) kill(self, SIGUSR1);
  });
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += StopSignal::take_save_request();
  storm.join();
  taken += StopSignal::take_save_request();
  EXPECT_GE(taken, 1);
}

// A thousand a second beside a thread that allocates and locks: none is lost for good, none stands in its way.
TEST(StopSignal, TenThousandAtAThousandASecondDisturbNobody) {
  const StopSignal signals;
  const int wanted = test::scaled(1000, 10000);
  std::atomic<bool> over = false;
  std::thread storm([&] {
    const BlockSignals blocked;
    for (int i = 0; i < wanted; ++i) {
      kill(getpid(), i == wanted / 2 ? SIGTERM : SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    over = true;
  });
  int taken = 0;
  std::mutex mutex;
  std::vector<std::string> made;
  while (!over) {
    const std::lock_guard lock(mutex);
    made.emplace_back(static_cast<std::size_t>(taken % 300), 'x');
    if (made.size() > 100) made.clear();
    taken += StopSignal::take_save_request();
  }
  storm.join();
  EXPECT_GE(taken, wanted / 50);
  EXPECT_EQ(StopSignal::stop_name(), "SIGTERM");
}

TEST(StopSignal, AClosedPipeIsAnErrorNotASignal) {
  const StopSignal signals;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

}  // namespace
}  // namespace hone
