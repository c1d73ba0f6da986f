// Processes that are started together, and end together.
#include "dist/launcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "harness/files.h"

namespace hone::dist {
namespace {

class Launches : public ::testing::Test {
 protected:
  // A script on each rank; seconds: how long all took.
  int run(int ranks, const std::string& script) {
    LaunchOptions options;
    options.ranks = ranks, options.grace_seconds = 0.5;
    options.command = {"/bin/sh", "-c", "cd " + folder_.path().string() + "; " + script};
    const double start = monotonic_seconds();
    const int code = launch(options);
    seconds_ = monotonic_seconds() - start;
    return code;
  }
  std::string text(const std::string& name) {
    std::ifstream file(folder_ / name);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }
  test::TempFolder folder_;
  double seconds_ = 0;
};

TEST_F(Launches, EachRankIsToldWhoItIs) {
  EXPECT_EQ(run(3, "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $HONE_STORE > $RANK"), 0);
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(text(std::to_string(rank)), std::to_string(rank) + " " + std::to_string(rank) + " 3 3 launcher\n");
}

TEST_F(Launches, TheFirstThatFailsEndsAll) {
  EXPECT_EQ(run(3, "[ $RANK = 1 ] && exit 5; exec sleep 60"), 5);
  EXPECT_LT(seconds_, 20);
}

TEST_F(Launches, ARankThatIsKilledIsALostPeer) {
  EXPECT_EQ(run(2, "[ $RANK = 1 ] && kill -9 $$; exec sleep 60"), 7);
  EXPECT_LT(seconds_, 20);
}

// Whoever does not heed SIGTERM is killed.
TEST_F(Launches, AStubbornRankIsKilled) {
  EXPECT_EQ(run(2, "[ $RANK = 1 ] && exit 4; trap '' TERM; while :; do sleep 0.1; done"), 4);
  EXPECT_LT(seconds_, 20);
}

TEST_F(Launches, StoppedRanksCanGoOn) { EXPECT_EQ(run(2, "exit 75"), 75); }

TEST_F(Launches, SignalsArePassedOn) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  std::thread sender([&] {
    for (int i = 0; i < 200 && (text("0") + text("1")).size() < 4; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(getpid(), SIGTERM);
  });
  EXPECT_EQ(run(2, "trap 'exit 75' TERM; echo x > $RANK; while :; do sleep 0.1; done"), 75);
  sender.join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Of the ranks that wait for the others none is missed.
TEST_F(Launches, ASignalThatComesWhileRanksAreStartedEndsThat) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  constexpr int kRanks = 200;
  EXPECT_EQ(run(kRanks, "trap 'exit 75' TERM; echo x > $RANK; [ $RANK = 0 ] && kill -TERM $PPID; "
                        "i=0; while [ $((i += 1)) -lt 200 ]; do sleep 0.1; done"), 75);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(text(std::to_string(kRanks - 1)), "");
  EXPECT_LT(seconds_, 15);
}

// As of a program whose parent ignores the ends of its children.
TEST_F(Launches, EndsOfRanksAreSeenWhereTheyWereIgnored) {
  struct sigaction ignored{}, before{};
  ignored.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignored, &before);
  EXPECT_EQ(run(2, "exit 3"), 3);
  struct sigaction after{};
  sigaction(SIGCHLD, &before, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST_F(Launches, AProgramThatIsNotThereIsACodeOfItsOwn) {
  LaunchOptions options;
  options.ranks = 2, options.command = {"/nowhere/program"};
  EXPECT_EQ(launch(options), 127);
}

}  // namespace
}  // namespace hone::dist
