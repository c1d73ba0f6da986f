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

TEST_F(Home, IsAskedForWhereThereIsNone) {
  unsetenv("HOME");
  Problems problems;
  Node root = parse_yaml("run: {folder: ~/r}", "r.yaml", problems);
  expand_home(root, problems);
  EXPECT_EQ(problems.size(), 1u);
}

}  // namespace
}  // namespace hone::config
