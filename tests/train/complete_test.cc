// The last step of a recipe's way: what only the start of a run decides.
#include "train/complete.h"

#include "base/env.h"
#include "hone/precision.h"
#include "train/support.h"

namespace hone::training {
namespace {

TEST(Complete, ARunHasAPrecisionAndAFolder) {
  const test::TempFolder folder;
  const Recipe given = test::small_recipe(folder, {{"trainer.precision", "auto"}});
  const Recipe complete = completed_for_run(given, Env::process(), false);
  EXPECT_EQ(complete.trainer.precision, resolve(Precision::automatic));
  EXPECT_NE(complete.trainer.precision, Precision::automatic);
  EXPECT_EQ(complete.run.folder, (folder / "run").string());
  const std::filesystem::path old = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Recipe named = completed_for_run(test::small_recipe(folder, {{"run", "{name: tiny}"}}), Env::process(), false);
  std::filesystem::current_path(old);
  EXPECT_EQ(named.run.name, "");
  EXPECT_EQ(std::filesystem::path(named.run.folder).filename(), "run_1");
}

TEST(Complete, WhatIsCompleteStaysAsItIs) {
  const test::TempFolder folder;
  const Recipe once = completed_for_run(test::small_recipe(folder), Env::process(), false);
  const Recipe again = completed_for_run(once, Env::process(), false);
  EXPECT_EQ(config::to_yaml(write_recipe(again)), config::to_yaml(write_recipe(once)));
}

TEST(Complete, APreviewWritesNothing) {
  const test::TempFolder folder;
  EXPECT_EQ(completed_for_preview(test::small_recipe(folder)).data.cache, "none");
  EXPECT_EQ(completed_for_preview(test::small_recipe(folder, {{"data.cache", "there"}})).data.cache, "there");
}

// What a schedule or a callback is made for does not become wrong because a few steps are measured.
TEST(Complete, ABenchHasTheRunsLengthAndEvaluatesNothing) {
  const test::TempFolder folder;
  const Recipe given = test::small_recipe(folder, {{"trainer.steps", "90"}, {"trainer.precision", "auto"}});
  const Recipe complete = completed_for_bench(given, "scratch", 7);
  EXPECT_EQ(complete.trainer.steps, 90);
  EXPECT_EQ(completed_for_bench(given, "scratch", 100).trainer.steps, 100);
  EXPECT_FALSE(complete.data.eval.held_out);
  EXPECT_EQ(complete.run.folder, "scratch");
  EXPECT_NE(complete.trainer.precision, Precision::automatic);
}

TEST(Complete, WhatWasChangedInBetweenIsChecked) {
  const test::TempFolder folder;
  Recipe recipe = test::small_recipe(folder);
  recipe.trainer.batch_size = 0;
  recipe.model.path = "m";
  EXPECT_HONE_ERROR(completed_for_run(recipe, Env::process(), false), config, "trainer.batch_size: got 0");
  EXPECT_HONE_ERROR(completed_for_preview(recipe), config, "model.type: not together");
  EXPECT_HONE_ERROR(completed_for_bench(recipe, "x", 1), config, "2 problems");
}

}  // namespace
}  // namespace hone::training
