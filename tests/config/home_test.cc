// Paths from the home folder.
#include "config/home.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace hone::config {
namespace {

class Home : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* home = std::getenv("HOME")) before_ = home;
    setenv("HOME", "/home/a", 1);
  }
  void TearDown() override { before_ ? setenv("HOME", before_->c_str(), 1) : unsetenv("HOME"); }
  std::optional<std::string> before_;
};

std::string expanded(const std::string& yaml) {
  Problems problems;
  Node root = parse_yaml(yaml, "r.yaml", problems);
  expand_home(root, problems);
  problems.raise();
  return to_yaml(root);
}

TEST_F(Home, IsPutIntoPathsOfRecipes) {
  for (const char* yaml : {"run: {folder: ~/r}", "run: ~/r", "model: {path: ~/r}", "model: ~/r", "tokenizer: ~/r",
                           "data: {train: ~/r}", "data: {train: [a, ~/r]}", "data: {train: [{path: ~/r}]}",
                           "data: {eval: ~/r}", "data: {eval: {news: ~/r}}", "data: {eval: {news: [{path: ~/r}]}}",
                           "data: {test: {news: [~/r]}}", "data: {cache: ~/r}", "adapter: {type: lora, path: ~/r}",
                           "objective: {type: dpo, reference: ~/r}",
                           "objective: {type: grpo, rewards: [{type: model, path: ~/r}]}"}) {
    const std::string made = expanded(yaml);
    EXPECT_NE(made.find("/home/a/r"), std::string::npos) << yaml << " became " << made;
    EXPECT_EQ(made.find('~'), std::string::npos) << yaml << " became " << made;
  }
}

TEST_F(Home, IsNotPutIntoTexts) {
  for (const char* yaml : {"callbacks: [{type: samples, prompts: [~/r]}]", "objective: {system: ~/r}",
                           "run: {folder: a/~/r}", "run: {folder: ~b/r}"}) {
    const std::string made = expanded(yaml);
    EXPECT_NE(made.find('~'), std::string::npos) << yaml << " became " << made;
    EXPECT_EQ(made.find("/home"), std::string::npos) << yaml << " became " << made;
  }
}

// Where a flag has a name before the file.
TEST_F(Home, IsPutBehindTheNameOfASet) {
  EXPECT_EQ(with_home("~/r"), "/home/a/r");
  EXPECT_EQ(with_home("news=~/r"), "news=/home/a/r");
  for (const char* same : {"r", "./~/r", "a/b=~/r", "news=r", "~b/r", "news=~b", "~", ""})
    EXPECT_EQ(with_home(same), same);
  Problems problems;
  Node flags = parse_yaml("{data: [news=~/r, ~/s], template_kwargs: [x=~/r]}", "flags", problems);
  expand_home_of_flags(flags, problems);
  problems.raise();
  const std::string made = to_yaml(flags);
  for (const char* part : {"news=/home/a/r", "/home/a/s", "x=~/r"})
    EXPECT_NE(made.find(part), std::string::npos) << part << " is not in " << made;
  unsetenv("HOME");
  EXPECT_EQ(with_home("news=~/r"), std::nullopt);
}

TEST_F(Home, IsAskedForWhereThereIsNone) {
  unsetenv("HOME");
  Problems problems;
  Node root = parse_yaml("run: {folder: ~/r}", "r.yaml", problems);
  expand_home(root, problems);
  EXPECT_EQ(problems.size(), 1u);
}

}  // namespace
}  // namespace hone::config
