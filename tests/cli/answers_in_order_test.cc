#include "cli/answers_in_order.h"

#include <gtest/gtest.h>

namespace hone::cli {
namespace {

class AnswersInOrderTest : public testing::Test {
 protected:
  void add(std::size_t prompt) { answers_.add(prompt, {{}, std::to_string(prompt)}); }
  std::string printed_;
  AnswersInOrder answers_{[this](std::size_t prompt, const Generated& answer) {
    EXPECT_EQ(answer.text, std::to_string(prompt));
    printed_ += answer.text;
  }};
};

TEST_F(AnswersInOrderTest, PrintEachOnceThoseBeforeItAreThere) {
  add(1);
  add(3);
  EXPECT_EQ(printed_, "");
  add(0);
  EXPECT_EQ(printed_, "01");
  add(2);
  EXPECT_EQ(printed_, "0123");
}

TEST_F(AnswersInOrderTest, PrintTheRestWithoutThoseThatAreMissing) {
  add(4);
  add(0);
  add(2);
  answers_.print_rest();
  EXPECT_EQ(printed_, "024");
  answers_.print_rest();
  EXPECT_EQ(printed_, "024");
}

}  // namespace
}  // namespace hone::cli
