// A file that is trained on and measured on is told of, whatever it is called.
#include "train/same_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "train/support.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SameData : public ::testing::Test {
 protected:
  std::vector<std::string> warnings(const std::string& train, const std::string& eval, const std::string& test = "") {
    DataSection data;
    data.train = {file(train)};
    data.eval.files["news"] = {file(eval)};
    if (!test.empty()) data.test.files["last"] = {file(test)};
    return training::sets_trained_on(data);
  }
  DataFile file(const std::string& name) const {
    DataFile made;
    made.path = (folder_ / name).string();
    return made;
  }
  void SetUp() override {
    for (const char* name : {"a.jsonl", "b.jsonl", "more/c.jsonl"}) {
      std::filesystem::create_directories((folder_ / name).parent_path());
      folder_.write(name, "{\"text\": \"the same\"}\n");
    }
    std::filesystem::create_symlink(folder_ / "a.jsonl", folder_ / "link.jsonl");
    std::filesystem::create_hard_link(folder_ / "a.jsonl", folder_ / "hard.jsonl");
  }
  test::TempFolder folder_;
};

TEST_F(SameData, IsFoundUnderEachName) {
  EXPECT_THAT(warnings("a.jsonl", "b.jsonl"), ElementsAre());  // another file, though it says the same
  for (const char* name : {"a.jsonl", "more/../a.jsonl", "link.jsonl", "hard.jsonl", "*.jsonl", "."})
    EXPECT_THAT(warnings("a.jsonl", name), ElementsAre(HasSubstr("is trained on, too"))) << name;
  EXPECT_THAT(warnings(".", "more/c.jsonl"), ElementsAre());
  EXPECT_THAT(warnings("more", "more/c.jsonl"), ElementsAre(HasSubstr("data.eval.news: ")));
}

TEST_F(SameData, IsToldOfTestSetsToo) {
  EXPECT_THAT(warnings("a.jsonl", "b.jsonl", "a.jsonl"), ElementsAre(HasSubstr("data.test.last: ")));
  EXPECT_EQ(warnings("a.jsonl", "a.jsonl", "a.jsonl").size(), 2);
}

TEST_F(SameData, WhatIsNotThereIsNotLookedFor) {
  EXPECT_THAT(warnings("none.jsonl", "a.jsonl"), ElementsAre());
  EXPECT_THAT(warnings("a.jsonl", "none.jsonl"), ElementsAre());
}

TEST_F(SameData, PreflightSaysIt) {
  std::string all;
  for (const std::string& line : preflight(
           test::small_recipe(folder_, {{"data.eval.seen", (folder_ / "train.jsonl").string()}})))
    all += line + "\n";
  EXPECT_THAT(all, HasSubstr("warning: data.eval.seen: "));
}

}  // namespace
}  // namespace hone
