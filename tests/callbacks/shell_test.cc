// Commands on what happens to a run: which are run when, what they are told, and that their failure is none of the
// run's.
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "base/log.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class ShellTest : public test::RunsWithCallbacks {
 protected:
  std::string all(const std::string& command, const std::string& more = "") {
    return "[{type: shell, on: [start, save, evaluation, end, signal, error], command: '" + command + "'}" + more + "]";
  }
  std::vector<std::string> said(const std::string& name = "said") {
    std::vector<std::string> lines;
    std::istringstream text(test::read_text(folder_ / name));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(ShellTest, RunsOnItsEventsInOrder) {
  run("run", all("echo $HONE_EVENT $HONE_STEP >> " + (folder_ / "said").string()));
  EXPECT_EQ(said(), (std::vector<std::string>{"start 0", "save 4", "evaluation 5", "save 8", "evaluation 10", "save 10",
                                              "end 10"}));
  std::filesystem::remove(folder_ / "said");
  run("saves", "[{type: shell, on: [save], command: 'echo $HONE_STEP >> " + (folder_ / "said").string() + "'}]");
  EXPECT_EQ(said(), (std::vector<std::string>{"4", "8", "10"}));
}

TEST_F(ShellTest, IsToldWhatIsSo) {
  run("facts", "[{type: shell, on: [save], command: 'env > $HONE_RUN_FOLDER/env-$HONE_STEP'}]");
  const std::string text = test::read_text(folder_ / "facts/env-10");
  const auto line = test::metrics_of(folder_ / "facts").back();
  const auto has = [&](const std::string& entry) {
    EXPECT_NE(("\n" + text).find("\n" + entry + "\n"), std::string::npos) << entry << " is not in\n" << text;
  };
  has("HONE_EVENT=save");
  has("HONE_STEPS=10");
  has("HONE_RUN_FOLDER=" + (folder_ / "facts").string());
  has("HONE_CHECKPOINT=" + (folder_ / "facts" / test::step_folder(10)).string());
  has(fmt::format("HONE_METRIC_EVAL_LOSS={}", line["eval_loss"].get<double>()));
  EXPECT_NE(text.find("\nHONE_METRIC_GRAD_NORM="), std::string::npos);
  EXPECT_EQ(text.find("HONE_METRIC_EVAL__"), std::string::npos);  // would be an option of a hone that is called
}

TEST_F(ShellTest, FailuresAreWarnings) {
  std::string warned;
  log::set_sink([&](log::Level, std::string_view text) { warned += std::string(text) + "\n"; });
  EXPECT_EQ(run("fails", "[{type: shell, on: [start, end], command: 'exit 7'}]").step, 10);
  EXPECT_NE(warned.find("callback shell, event start: `exit 7`: exit code 7"), std::string::npos) << warned;
  EXPECT_NE(warned.find("event end"), std::string::npos) << warned;
  EXPECT_EQ(run("hangs", "[{type: shell, on: [start], command: 'sleep 60', time_limit: 0.1}]").step, 10);
  EXPECT_NE(warned.find("not done after 0.1 s"), std::string::npos) << warned;
}

TEST_F(ShellTest, SignalsAndErrorsAreTold) {
  const std::string echo = "echo \"$HONE_EVENT $HONE_STEP $HONE_SIGNAL $HONE_ERROR\" >> ";
  run("signal", all(echo + (folder_ / "said").string(), ", {type: raise_at, step: 3}"));
  EXPECT_EQ(said(), (std::vector<std::string>{"start 0  ", "signal 3 SIGTERM ", "save 3  ", "end 3  "}));
  EXPECT_HONE_ERROR(run("error", all(echo + (folder_ / "failed").string(), ", {type: poison, step: 2}")), not_finite,
                    "");
  const auto lines = said("failed");
  ASSERT_GE(lines.size(), 2u);
  EXPECT_TRUE(lines[1].starts_with("error 2  step 3")) << lines[1];
}

// A command of minutes must not cost a run its checkpoint.
TEST_F(ShellTest, ACommandEndsWhenASignalComes) {
  std::string warned;
  log::set_sink([&](log::Level, std::string_view text) { warned += std::string(text) + "\n"; });
  const Summary made = run("stops", "[{type: shell, on: [evaluation], command: 'kill -TERM $PPID; sleep 100'}]");
  EXPECT_EQ(made.stopped_by, "SIGTERM");
  EXPECT_EQ(made.step, 5);
  EXPECT_NE(warned.find("ended, as the run was told to stop"), std::string::npos) << warned;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "stops" / test::step_folder(5) / "MANIFEST.json"));
}

TEST_F(ShellTest, RefusesWhatCannotBe) {
  EXPECT_HONE_ERROR(run("a", "[{type: shell, command: ' '}]"), config, "command");
  EXPECT_HONE_ERROR(run("a", "[{type: shell, command: 'true', on: []}]"), config, "on");
  EXPECT_HONE_ERROR(run("a", "[{type: shell, command: 'true', on: [sometimes]}]"), config, "start");
}

}  // namespace
}  // namespace hone
