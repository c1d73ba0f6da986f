// trainer.log_modes in a run: the same numbers however a step is cut, and when the run is killed within a window.
#include <gtest/gtest.h>

#include <cmath>

#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class LogModes : public ::testing::Test {
 protected:
  LogModes() { test::register_test_callbacks(); }
  Summary run(const std::string& name, test::Overrides overrides) {
    overrides.insert(overrides.begin(), {{"run.folder", (folder_ / name).string()},
                                         {"data.packing", "none"},
                                         {"trainer.steps", "9"},
                                         {"trainer.eval_every", "0"}});
    return train(test::small_recipe(folder_, overrides), test::quiet_options());
  }
  // Of the lines of a run that have it.
  std::vector<double> values(const std::string& name, const std::string& key) {
    return test::values(folder_ / name, key);
  }
  test::TempFolder folder_;
};

const std::string kAll = "[mean, single, max, std]";

TEST_F(LogModes, SayTheStepsSinceTheLastLine) {
  run("single", {});
  run("three", {{"trainer.log_every", "3"}, {"trainer.log_modes", kAll}});
  const std::vector<double> steps = values("single", "loss"), norms = values("single", "grad_norm");
  ASSERT_EQ(steps.size(), 9u);
  const auto means = values("three", "loss_mean"), singles = values("three", "loss_single"),
             maxima = values("three", "loss_max"), deviations = values("three", "loss_std"),
             norm_means = values("three", "grad_norm_mean");
  ASSERT_EQ(means.size(), 3u);
  EXPECT_EQ(means, values("three", "loss"));  // weighted by what each step has learnt
  for (std::size_t line = 0; line < 3; ++line) {
    const double *loss = &steps[3 * line], *norm = &norms[3 * line];
    const double low = std::min({loss[0], loss[1], loss[2]}), high = std::max({loss[0], loss[1], loss[2]});
    EXPECT_GT(means[line], low);
    EXPECT_LT(means[line], high);
    EXPECT_EQ(singles[line], loss[2]);
    EXPECT_EQ(maxima[line], high);
    const double mean = (loss[0] + loss[1] + loss[2]) / 3;
    double squares = 0;
    for (int i = 0; i < 3; ++i) squares += (loss[i] - mean) * (loss[i] - mean);
    EXPECT_NEAR(deviations[line], std::sqrt(squares / 3), 1e-9);
    EXPECT_NEAR(norm_means[line], (norm[0] + norm[1] + norm[2]) / 3, 1e-9);
  }
}

TEST_F(LogModes, AreTheSameHoweverAStepIsCut) {
  const test::Overrides how{{"trainer.log_every", "3"}, {"trainer.log_modes", kAll}};
  test::Overrides deep = how;
  deep.insert(deep.end(), {{"trainer.batch_size", "1"}, {"trainer.accumulate", "4"}});
  run("wide", how), run("deep", deep);
  for (const char* key : {"loss", "loss_mean", "loss_single", "loss_max", "loss_std", "grad_norm_max"}) {
    const std::vector<double> wide = values("wide", key), cut = values("deep", key);
    ASSERT_EQ(wide.size(), 3u) << key;
    ASSERT_EQ(cut.size(), 3u) << key;
    for (std::size_t line = 0; line < 3; ++line) EXPECT_NEAR(cut[line], wide[line], 1e-5) << key;
  }
}

// The checkpoint of step 4 holds a window of one step; those of later steps are gone as a kill leaves it.
TEST_F(LogModes, SurviveAKillWithinAWindow) {
  const test::Overrides how{{"trainer.log_every", "3"},
                            {"trainer.report_every", "2"},
                            {"trainer.log_modes", kAll},
                            {"trainer.accumulate", "2"},
                            {"trackers", "[csv]"}};
  run("whole", how);
  test::Overrides killed = how;
  killed.emplace_back("callbacks", "[{type: raise_at, step: 7}]");
  EXPECT_TRUE(run("parts", killed).interrupted());
  std::filesystem::remove_all(folder_ / "parts" / test::step_folder(7));
  EXPECT_EQ(run("parts", how).resumed_from, 4);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 9);
}

}  // namespace
}  // namespace hone
