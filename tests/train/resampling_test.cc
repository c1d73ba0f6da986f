// Steps that ask further prompts in place of those whose answers are all worth the same.
#include <numeric>

#include "harness/errors.h"
#include "train/complete.h"
#include "train/half_judged.h"
#include "train/hooks_for_tests.h"

namespace hone {
namespace {

class Resampling : public test::HalfJudged {};

TEST_F(Resampling, LearnFromAnswersThatDiffer) {
  run(1, "none", asked(""));
  run(1, "some", asked("resample: 8"));
  const auto alike = values("none", "frac_reward_zero_std"), rest = values("some", "frac_reward_zero_std"),
             asked_for = values("some", "resampling/draws"), all = values("some", "resampling/frac_reward_zero_std");
  ASSERT_EQ(alike.size(), 8u);
  ASSERT_EQ(rest.size(), 8u);
  EXPECT_GT(sum(alike), 2);
  EXPECT_EQ(sum(rest), 0);
  EXPECT_GT(sum(asked_for), 8);
  EXPECT_GT(sum(all), 2);
  EXPECT_TRUE(values("none", "resampling/draws").empty());
  // All that was asked is of the data, in their order: 32 rows an epoch, 8 a draw.
  EXPECT_NEAR(values("some", "epoch").back(), sum(asked_for) * 8 / 32, 1e-9);
  EXPECT_NEAR(values("none", "epoch").back(), 8 * 8 / 32.0, 1e-9);
  EXPECT_EQ(values("none", "tokens").size(), values("some", "tokens").size());
}

TEST_F(Resampling, EndsWhereThereIsNothingToLearn) {
  run(1, "alike", asked("resample: 2", {{"objective.rewards", "[{type: format, pattern: 'never so'}]"},
                                       {"trainer.steps", "2"}}));
  EXPECT_EQ(values("alike", "resampling/draws"), (std::vector<double>{3, 3}));
  EXPECT_EQ(values("alike", "frac_reward_zero_std"), (std::vector<double>{1, 1}));
  EXPECT_EQ(values("alike", "grad_norm"), (std::vector<double>{0, 0}));
}

TEST_F(Resampling, EachEpochEndsThoughAStepGoesThroughAllOfIt) {
  run(1, "epochs", asked("resample: 3", {{"objective.rewards", "[{type: format, pattern: 'never so'}]"},
                                        {"trainer.eval_every_epochs", "1"},
                                        {"trainer.steps", "4"}}));
  EXPECT_EQ(values("epochs", "epoch").back(), 4);
  EXPECT_EQ(values("epochs", "eval_reward").size(), 4u);
}

TEST_F(Resampling, GoesOnToTheSameBitsAndTheSameRows) {
  test::register_test_callbacks();
  for (const std::string type : {"grpo", "rloo"}) {
    const auto at = [&](const std::string& name, const std::string& callbacks) {
      train(test::small_recipe(folder_, with(asked("resample: 3", {{"objective.type", type},
                                                                   {"callbacks", "[" + callbacks + "]"},
                                                                   {"run.folder", in(name + type).string()}}))),
            test::quiet_options());
      return in(name + type);
    };
    const auto whole = at("whole", "");
    at("parts", "{type: raise_at, step: 3}");
    at("parts", "{type: raise_at, step: 5}");
    at("parts", "{type: raise_at, step: 8}");  // before the evaluation that ends the run
    const auto parts = at("parts", "");
    test::expect_equal_runs(whole, parts, 8);
    EXPECT_EQ(test::read_text(whole / "completions.jsonl"), test::read_text(parts / "completions.jsonl"));
    EXPECT_GT(sum(values("whole" + type, "resampling/draws")), 8);
  }
}

TEST_F(Resampling, RanksAskAsOften) {
  run(2, "two", asked("resample: 8"));
  EXPECT_EQ(sum(values("two", "frac_reward_zero_std")), 0);
  EXPECT_GT(sum(values("two", "resampling/draws")), 8);
  EXPECT_NEAR(values("two", "epoch").back(), sum(values("two", "resampling/draws")) * 8 / 32, 1e-9);
}

TEST_F(Resampling, IsRefusedWhereStepsAreUnlike) {
  const test::Overrides growing = asked("resample: 1", {{"trainer.batch_warmup", "[{batch_size: 2, steps: 2}]"}});
  EXPECT_THAT(fails(1, growing, ErrorKind::config),
              ::testing::HasSubstr("asks for further prompts within a step; expected steps that are all alike"));
}

}  // namespace
}  // namespace hone
