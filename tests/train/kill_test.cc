// kill -9 anywhere, the same command again: the same weights, optimizer and metrics, bit for bit.
//
// The test program runs itself as the child that is killed (HONE_KILL_CHILD names what it trains in).
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/env.h"
#include "train/hooks_for_tests.h"
#include "train/killed.h"
#include "train/support.h"

namespace hone {
namespace {

using test::train_in_child;

// Kills the process at the n-th operation below the run folder.
class KillingEnv final : public Env {
 public:
  explicit KillingEnv(std::int64_t at) : at_(at) {}
  int before(Operation&) override {
    if (++count_ == at_) ::kill(::getpid(), SIGKILL);
    return 0;
  }

 private:
  std::int64_t at_;
  std::atomic<std::int64_t> count_ = 0;
};

TEST(KillChild, Trains) {
  const char* recipe = std::getenv("HONE_KILL_CHILD");
  if (!recipe) GTEST_SKIP() << "only run by Kill.AnywhereAndAgainIsTheUninterruptedRun";
  KillingEnv env(std::atoll(std::getenv("HONE_KILL_AT")));
  test::register_test_callbacks();
  TrainOptions options = test::quiet_options();
  options.env = &env;
  train(read_recipe(recipe), options);
}

class Kill : public ::testing::TestWithParam<std::string> {};

TEST_P(Kill, AnywhereAndAgainIsTheUninterruptedRun) {
  test::register_test_callbacks();
  const test::TempFolder folder;
  const test::Overrides base{
      {"trainer.precision", GetParam()}, {"trainer.save.every", "2"}, {"trainer.save.keep", "2"},
      {"callbacks", "[weight_mean]"}};
  const auto recipe_in = [&](const std::string& name) {
    test::Overrides overrides = base;
    overrides.emplace_back("run.folder", (folder / name).string());
    return folder.write(name + ".yaml", config::to_yaml(write_recipe(test::small_recipe(folder, overrides)))).string();
  };
  ASSERT_EQ(train_in_child(recipe_in("whole"), -1), 0);
  for (const std::int64_t at : {3, 30, 61, 90, 131, 177, 230, 299}) {
    SCOPED_TRACE(fmt::format("killed at operation {}, then at {}", at, at / 2));
    const std::string name = fmt::format("killed-{}", at), recipe = recipe_in(name);
    const int first = train_in_child(recipe, at);
    if (first == SIGKILL)
      EXPECT_TRUE(train_in_child(recipe, at / 2) == SIGKILL);
    else
      EXPECT_EQ(first, 0);
    ASSERT_EQ(train_in_child(recipe, -1), 0);
    test::expect_equal_runs(folder / "whole", folder / name, 10);
  }
}

// Twenty kills of one run, with checkpoints written beside training.
TEST(Kills, TwentyOfOneRunThatSavesBesideTrainingChangeNoBit) {
  const test::TempFolder folder;
  const auto recipe_in = [&](const std::string& name) {
    const test::Overrides overrides{{"trainer.precision", "bf16"},
                                    {"trainer.steps", "90"},
                                    {"trainer.save.every", "1"},
                                    {"trainer.save.keep", "2"},
                                    {"trainer.save.asynchronous", "true"},
                                    {"run.folder", (folder / name).string()}};
    return folder.write(name + ".yaml", config::to_yaml(write_recipe(test::small_recipe(folder, overrides)))).string();
  };
  ASSERT_EQ(train_in_child(recipe_in("whole"), -1), 0);
  const std::string broken = recipe_in("broken");
  for (int kill = 0; kill < 20; ++kill) {
    SCOPED_TRACE(kill);
    ASSERT_EQ(train_in_child(broken, 40 + kill * 83 % 230), SIGKILL);
  }
  ASSERT_EQ(train_in_child(broken, -1), 0);
  test::expect_equal_runs(folder / "whole", folder / "broken", 90);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Kill, ::testing::Values("fp32", "bf16"));

}  // namespace
}  // namespace hone
