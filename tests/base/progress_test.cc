// What the progress line says, at any width.
#include "base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
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

// Standard error on a terminal of the test's own while alive.
class OnTerminal {
 public:
  OnTerminal() : terminal_(posix_openpt(O_RDWR | O_NOCTTY)), old_(dup(STDERR_FILENO)) {
    grantpt(terminal_);
    unlockpt(terminal_);
    const int other = open(ptsname(terminal_), O_RDWR | O_NOCTTY);
    dup2(other, STDERR_FILENO);
    close(other);
  }
  ~OnTerminal() {
    dup2(old_, STDERR_FILENO);
    close(old_);
    close(terminal_);
    unsetenv("NO_COLOR");
  }
  std::string shown() {
    fcntl(terminal_, F_SETFL, O_NONBLOCK);
    std::string text(10000, '\0');
    const ssize_t size = read(terminal_, text.data(), text.size());
    return text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }

 private:
  int terminal_, old_;
};

std::string shown_on(const char* term, bool no_color = false) {
  OnTerminal terminal;
  term ? setenv("TERM", term, 1) : unsetenv("TERM");
  if (no_color) setenv("NO_COLOR", "1", 1);
  Progress progress({.what = "train", .total = 10, .plain_every_s = 0});
  progress.update(5);
  progress.finish();
  return terminal.shown();
}

TEST(Progress, RedrawsOnATerminalThatObeysEscapesOnly) {
  EXPECT_THAT(shown_on("xterm"), HasSubstr("\r\x1b[K\x1b[36mtrain 5/10"));
  for (const std::string& plain : {shown_on("dumb"), shown_on(""), shown_on(nullptr), shown_on("xterm", true)}) {
    EXPECT_THAT(plain, HasSubstr("train 5/10"));
    EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
    EXPECT_THAT(plain, Not(testing::ContainsRegex("\r[^\n]")));
  }
}

TEST(Progress, IsSilentWhereTheLogIs) {
  log::set_level(log::Level::warning);
  EXPECT_EQ(shown_on("xterm"), "");
  EXPECT_EQ(shown_on("dumb"), "");
  log::set_level(log::Level::info);
  log::set_form(log::Form::json);
  EXPECT_EQ(shown_on("xterm"), "");
  log::set_form(log::Form::text);
}

}  // namespace
}  // namespace hone
