// Levels, sinks, counted warnings; a closed pipe does not end the process.
#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace hone {
namespace {

class Log : public testing::Test {
 protected:
  Log() {
    log::set_sink([this](log::Level, std::string_view message) { seen_.emplace_back(message); });
  }
  ~Log() override {
    log::set_sink({});
    log::set_level(log::Level::info);
  }
  std::vector<std::string> seen_;
};

TEST_F(Log, DropsWhatIsBelowTheLevelButCountsWarnings) {
  const auto before = log::warnings();
  log::debug("no {}", 1);
  log::info("yes {}", 2);
  log::set_level(log::Level::silent);
  log::warning("quiet");
  EXPECT_EQ(seen_, (std::vector<std::string>{"yes 2"}));
  EXPECT_EQ(log::warnings(), before + 1);
}

TEST_F(Log, NeverThrows) {
  log::set_sink([](log::Level, std::string_view) { throw std::runtime_error("sink"); });
  EXPECT_NO_THROW(log::info("x"));
}

TEST_F(Log, LimiterCountsWhatItLeavesOut) {
  log::Limiter limiter(0.05);
  for (int i = 0; i < 5; ++i) limiter.warning("disk full");
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  limiter.warning("disk full");
  EXPECT_EQ(seen_, (std::vector<std::string>{"disk full", "disk full (4 more like it since the last one shown)"}));
}

TEST_F(Log, IsWholeFromManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 250; ++i) log::info("line {}", i);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen_.size(), 1000u);
}

TEST(LogStderr, ATerminalObeysNothingInAMessage) {
  testing::internal::CaptureStderr();
  log::info("in {}:\nend", "a\x1b[2Jb");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "in a\\x1b[2Jb:\nend\n");
}

TEST(LogStderr, EachMessageIsOneObjectWhereJsonIsAsked) {
  testing::internal::CaptureStderr();
  log::set_form(log::Form::json);
  log::set_status("no escapes here");
  log::warning("a \"{}\"\nb", "\xff");
  log::set_form(log::Form::text);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "{\"level\":\"warning\",\"message\":\"a \\\"\xef\xbf\xbd\\\"\\nb\"}\n");
}

TEST(LogPipe, AClosedPipeDoesNotEndTheProcess) {
  const pid_t child = fork();
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    log::warning("nobody reads this");
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace hone
