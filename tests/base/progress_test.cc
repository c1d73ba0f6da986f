// What the progress line says, at any width.
#include "base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/strings.h"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Progress, SaysStepsValuesRateAndRemainingTime) {
  Progress progress({.what = "train", .total = 200, .quiet = true});
  progress.add_tokens(50000);
  const std::string line = progress.line(50, {{"loss", "2.345"}}, 200, 10);
  EXPECT_THAT(line, HasSubstr("train 50/200"));
  EXPECT_THAT(line, HasSubstr("loss 2.345"));
  EXPECT_THAT(line, HasSubstr("5.00k tokens/s"));
  EXPECT_THAT(line, HasSubstr("30.0s left"));
  EXPECT_THAT(line, HasSubstr("[=======>"));
}

TEST(Progress, LeavesOutWhatMattersLeast) {
  Progress progress({.what = "train", .total = 20000, .quiet = true});
  progress.add_tokens(60000);
  const Progress::Values values{{"loss", "3.7506"}, {"lr", "3.00e-04"}, {"grad_norm", "1.6081"}};
  EXPECT_EQ(progress.line(1300, values, 79, 20),
            "train 1300/20000  loss 3.7506  3.00k tokens/s  4m 48s left  lr 3.00e-04");
  EXPECT_EQ(progress.line(1300, values, 39, 20), "train 1300/20000  loss 3.7506");
}

TEST(Progress, CountsTheRateFromWhereAResumedRunBegan) {
  Progress progress({.total = 200, .start = 100, .quiet = true});
  EXPECT_THAT(progress.line(150, {}, 200, 10), HasSubstr("10.0s left"));
}

TEST(Progress, FitsEveryWidth) {
  Progress progress({.total = 1000, .quiet = true});
  progress.add_tokens(12345);
  for (std::size_t width = 1; width < 150; ++width)
    EXPECT_LE(display_width(progress.line(123, {{"loss", "1.2"}, {"lr", "3e-4"}}, width, 5)), width);
  EXPECT_THAT(progress.line(123, {{"loss", "1.2"}}, 20, 5), Not(HasSubstr("left")));
}

TEST(Progress, UnknownTotalHasNoBar) {
  Progress progress({.what = "tokenize", .unit = "record", .quiet = true});
  EXPECT_EQ(progress.line(0, {}, 80, 0), "tokenize 0 records");
  EXPECT_THAT(progress.line(50, {}, 80, 2), HasSubstr("25 records/s"));
}

TEST(Progress, WidthComesFromColumns) {
  setenv("COLUMNS", "33", 1);
  EXPECT_EQ(terminal_width(), 33u);
  setenv("COLUMNS", "nonsense", 1);
  EXPECT_GE(terminal_width(), 1u);
  unsetenv("COLUMNS");
}

}  // namespace
}  // namespace hone
