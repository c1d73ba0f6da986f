// The progress line: its numbers are of its step, or say of which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "hone/config.h"
#include "hone/registry.h"
#include "hone/tracker.h"

namespace hone {
namespace {

using testing::HasSubstr;

std::string said(const std::function<void(Tracker&)>& steps) {
  config::Choice<Tracker> choice;
  choice.type = "terminal";
  choice.options = registries().trackers.options("terminal");
  Problems problems;
  choice.options->read(config::parse_yaml("plain_every_s: 0", "test", problems), problems, "terminal");
  problems.raise();
  RunInfo run;
  run.steps = 12;
  testing::internal::CaptureStderr();
  const auto terminal = registries().trackers.make(choice, run);
  steps(*terminal);
  terminal->finish();
  return testing::internal::GetCapturedStderr();
}

TEST(Terminal, SaysOfWhichStepANumberIsThatIsNotOfItsOwn) {
  const std::string lines = said([](Tracker& terminal) {
    terminal.log(9, {{"loss", 2.5}, {"grad_norm", 0.5}, {"learning_rate", 1e-4}});
    terminal.step(9, 10, 1);
    terminal.step(10, 10, 1);
    terminal.log(12, {{"loss", 1.5}, {"grad_norm", 0.25}});
    terminal.step(12, 10, 1);
  });
  EXPECT_THAT(lines, HasSubstr("train 9/12  loss 2.5000  "));
  EXPECT_THAT(lines, HasSubstr("train 10/12  loss 2.5000 (step 9)  "));
  EXPECT_THAT(lines, HasSubstr("lr 1.00e-04 (step 9)  grad_norm 0.5000 (step 9)"));
  EXPECT_THAT(lines, HasSubstr("train 12/12  loss 1.5000  "));
  EXPECT_THAT(lines, HasSubstr("lr 1.00e-04 (step 9)  grad_norm 0.2500"));
}

}  // namespace
}  // namespace hone
