// A program of the user's that gives rewards: what it reads, what it may write, and how it fails.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "rewards/scoring.h"

namespace hone::test {
namespace {

using nlohmann::json;

class CommandReward : public WithFolder {
 protected:
  static std::unique_ptr<Reward> made(const std::string& command, double timeout = 60) {
    return reward("command", json{{"command", command}, {"timeout", timeout}}.dump());
  }
  static Scores of(const std::string& command, std::size_t answers = 2) {
    return scores(*made(command), std::vector<Answer>(answers, answer("x")));
  }
};

TEST_F(CommandReward, ReadsALineOfJsonForEachAnswer) {
  Answer first = answer("a \"b\"\n\xE4", "ref");
  first.prompt = "p\n";
  first.ids = {1, 2};
  first.complete = false;
  const std::string file = (folder_ / "read").string();
  EXPECT_EQ(scores(*made("tee " + file + " | sed 's/.*/1/'"), {first, answer("")}), (Scores{1, 1}));
  std::istringstream read(content_of(file));
  std::string line;
  ASSERT_TRUE(std::getline(read, line));
  EXPECT_EQ(json::parse(line), (json{{"prompt", "p\n"},
                                     {"completion", "a \"b\"\n\xEF\xBF\xBD"},
                                     {"reference", "ref"},
                                     {"ids", {1, 2}},
                                     {"complete", false},
                                     {"record", "r.jsonl:1"},
                                     {"step", 8}}));
  ASSERT_TRUE(std::getline(read, line));
  EXPECT_EQ(json::parse(line).at("ids"), json::array());
  EXPECT_FALSE(std::getline(read, line));
}
TEST_F(CommandReward, WritesNumbersNullsOrObjects) {
  EXPECT_EQ(of("printf '1\\n-2.5e-1\\nnull\\n{\"reward\": 3, \"why\": \"so\"}\\n{\"reward\": null}'", 5),
            (Scores{1, -0.25, std::nullopt, 3, std::nullopt}));
  EXPECT_EQ(of("printf ' 1 \\r\\n2\\n'"), (Scores{1, 2}));
  EXPECT_EQ(of("exit 1", 0), Scores{});  // without answers it does not run
}
TEST_F(CommandReward, TakesMegabytes) {
  std::vector<Answer> answers;
  for (int i = 0; i < 2000; ++i) answers.push_back(answer(std::string(2000, 'x')));
  Scores wanted;
  for (int i = 1; i <= 2000; ++i) wanted.emplace_back(i);
  EXPECT_EQ(scores(*made("awk '{print NR}'"), answers), wanted);
}
TEST_F(CommandReward, NamesTheLineThatIsNone) {
  const auto line = [](const std::string& text) { return of("printf '1\\n%s\\n' '" + text + "'"); };
  for (const std::string text : {"nan", "NaN", "inf", "1e999", "true", "\"1\"", "[1]", "{}", "{\"rewrad\": 1}", "1 2",
                                 "", "{\"reward\": \"1\"}", "Loading..."})
    EXPECT_HONE_ERROR(line(text), data, "line 2 of what it wrote: got ");
  EXPECT_HONE_ERROR(line("Loading..."), data,
                    "got \"Loading...\", expected a number, null or an object with \"reward\"\n  hint: ");
}
TEST_F(CommandReward, RefusesFewerAndMoreLines) {
  EXPECT_HONE_ERROR(of("echo 1"), data,
                    "reward command: `echo 1`: it wrote 1 line, \"1\"; expected 2, one for each answer\n  hint: ");
  EXPECT_HONE_ERROR(of("printf '1\\n2\\n3\\n'"), data, "it wrote 3 lines, the first of which is \"1\"; expected 2");
  EXPECT_HONE_ERROR(of("cat > /dev/null"), data, "it wrote nothing; expected 2, a line for each");
}
TEST_F(CommandReward, FailsAsItsProgramDoes) {
  EXPECT_HONE_ERROR(of("printf '1\\n2\\n'; exit 3"), data, "; exit 3`: exit code 3");
  EXPECT_HONE_ERROR(of("kill -9 $$"), data, "`: ended by signal 9");
  EXPECT_HONE_ERROR(scores(*made("echo 1; sleep 100", 0.2), {answer("x")}), data, "not done after 0.2 s");
  EXPECT_HONE_ERROR(of("/no/such/judge 2> /dev/null"), data, "exit code 127");
}
TEST_F(CommandReward, IsNoRankOfTheRun) {
  setenv("RANK", "3", 1);
  EXPECT_EQ(of("echo ${RANK-9}", 1), Scores{9});
  unsetenv("RANK");
}
TEST_F(CommandReward, IsAskedTheSameAnewWhereItFails) {
  const std::string here = folder_.path().string();
  const auto failing = [&](const std::string& how, int retries, double timeout) {
    for (const char* one : {"times", "read1", "read2", "read3"}) std::filesystem::remove(folder_ / one);
    const std::string command = "cd " + here + "; echo x >>times; n=$(wc -l <times); tee read$n >read; " +
                                "if [ $n -lt 3 ]; then " + how + "; fi; sed 's/.*/'$n/ read";
    return scores(*reward("command", json{{"command", command}, {"timeout", timeout}, {"retries", retries}}.dump()),
                  {answer("x"), answer("y")});
  };
  std::string warnings;
  log::set_sink([&](log::Level level, std::string_view text) {
    if (level == log::Level::warning) warnings += std::string(text) + "\n";
  });
  EXPECT_EQ(failing("exit 3", 2, 60), (Scores{3, 3}));
  log::set_sink({});
  EXPECT_NE(warnings.find("exit code 3; asked anew in 1 s (1 of 2)"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("exit code 3; asked anew in 2 s (2 of 2)"), std::string::npos) << warnings;
  EXPECT_FALSE(content_of(folder_ / "read1").empty());
  EXPECT_EQ(content_of(folder_ / "read1"), content_of(folder_ / "read3"));
  EXPECT_HONE_ERROR(failing("exit 3", 1, 60), data, "exit code 3");
  EXPECT_HONE_ERROR(failing("sleep 100", 1, 0.2), data, "not done after 0.2 s");
  EXPECT_EQ(failing("exit", 2, 60), (Scores{3, 3}));  // it wrote nothing
}
TEST_F(CommandReward, IsWaitedForNoMoreWhereTheRunIsToldToStop) {
  const StopSignal signals;
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::raise(SIGTERM);
  });
  const Stopwatch watch;
  try {
    scores(*made("sleep 1000", 2000), {answer("x")});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kStopped) << error.what();
  }
  EXPECT_LT(watch.seconds(), 30);
  later.join();
}
TEST_F(CommandReward, NeedsACommand) {
  EXPECT_HONE_ERROR(reward("command"), config, "command: missing");
  EXPECT_HONE_ERROR(reward("command", "{command: ' '}"), config, "command: missing");
  EXPECT_HONE_ERROR(reward("command", "{command: cat, timeout: 0}"), config, "timeout");
}

}  // namespace
}  // namespace hone::test
