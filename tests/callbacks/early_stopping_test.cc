// Early stopping: patience, the smallest drop that counts, state across a restart.
#include <gtest/gtest.h>

#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/data.h"
#include "hone/hub.h"
#include "hone/model.h"
#include "hone/registry.h"
#include "hone/text.h"
#include "train/callback_state.h"
#include "train/support.h"

namespace hone {
namespace {

class EarlyStoppingTest : public ::testing::Test {
 protected:
  std::unique_ptr<Callback> make(const std::string& yaml) {
    Problems problems;
    const auto options = registries().callbacks.options("early_stopping");
    options->read(config::parse_yaml(yaml, "test", problems), problems, "");
    problems.raise();
    return registries().callbacks.make("early_stopping", *options);
  }
  // The actions that a series of values of both metrics is answered with: "." goes on, "S" stops.
  std::string answers(Callback& callback, const std::vector<double>& values) {
    std::string text;
    for (const double value : values) {
      Metrics metrics{{"eval_loss", value}, {"eval_accuracy", value}};
      text += callback.on_evaluation_end(view_, metrics) == Action::stop ? 'S' : '.';
    }
    return text;
  }
  std::unique_ptr<Model> model_ = load_model(test::golden("models/llama").string(), Precision::fp32);
  std::string folder_;
  const std::vector<std::string> rising_{"eval_accuracy", "eval_f1_macro"};
  TrainView view_{1, 10, 100, 0.5, *model_, folder_, rising_};
};

TEST_F(EarlyStoppingTest, StopsAfterPatienceEvaluationsWithoutANewBest) {
  EXPECT_EQ(answers(*make("{patience: 2}"), {3, 2, 2.5, 2.1}), "...S");
  EXPECT_EQ(answers(*make("{patience: 2}"), {3, 2, 2.5, 1.9, 2, 1.95}), ".....S");
}

TEST_F(EarlyStoppingTest, ASmallDropIsNoNewBest) {
  EXPECT_EQ(answers(*make("{patience: 1, min_drop: 0.5}"), {3, 2.6}), ".S");
  EXPECT_EQ(answers(*make("{patience: 1, min_drop: 0.5}"), {3, 2.4}), "..");
}

TEST_F(EarlyStoppingTest, NanIsNoNewBest) { EXPECT_EQ(answers(*make("{patience: 1}"), {3, NAN}), ".S"); }

TEST_F(EarlyStoppingTest, ItsStateSurvivesARestart) {
  const auto before = make("{patience: 2}"), after = make("{patience: 2}");
  answers(*before, {3, 3.5});
  training::put_state(*after, "0.early_stopping", training::take_state(*before, "0.early_stopping"));
  EXPECT_EQ(answers(*after, {3.2}), "S");
}

// As the evaluation says, unless the recipe knows better.
TEST_F(EarlyStoppingTest, KnowsWhichWayIsBetter) {
  EXPECT_EQ(answers(*make("{patience: 2, metric: eval_accuracy}"), {0.2, 0.5, 0.4, 0.45}), "...S");
  EXPECT_EQ(answers(*make("{patience: 1, metric: eval_accuracy}"), {0, 0.1, 0.2, 0.2}), "...S");
  EXPECT_EQ(answers(*make("{patience: 1, metric: eval_accuracy, min_drop: 0.1}"), {0.5, 0.55}), ".S");
  EXPECT_EQ(answers(*make("{patience: 1, metric: eval_accuracy, min_drop: 0.1}"), {0.5, 0.65}), "..");
  EXPECT_EQ(answers(*make("{patience: 1, metric: eval_accuracy}"), {0.5, NAN}), ".S");
  EXPECT_EQ(answers(*make("{patience: 1, metric: eval_accuracy, greater_is_better: false}"), {0.5, 0.4, 0.6}), "..S");
  EXPECT_EQ(answers(*make("{patience: 1, greater_is_better: true}"), {3, 4, 3.5}), "..S");
}

TEST_F(EarlyStoppingTest, ItsStateSurvivesARestartWhereMoreIsBetter) {
  const std::string yaml = "{patience: 2, metric: eval_accuracy}";
  const auto fresh = make(yaml), before = make(yaml), after = make(yaml);
  training::put_state(*after, "0", training::take_state(*fresh, "0"));
  EXPECT_EQ(answers(*after, {0.1}), ".");
  answers(*before, {0.5, 0.4});
  training::put_state(*after, "0", training::take_state(*before, "0"));
  EXPECT_EQ(answers(*after, {0.45}), "S");
}

// What was best of one metric, or on some rows, says nothing of another metric or of other rows.
TEST_F(EarlyStoppingTest, BeginsAnewWhereAnotherThingIsMeasured) {
  using Rows = std::map<std::string, std::string>;
  const Rows before{{"eval_a_", "one 8"}, {"eval_b_", "one 8"}}, fewer_of_a{{"eval_a_", "one 4"}, {"eval_b_", "one 8"}},
      other_b{{"eval_a_", "one 8"}, {"eval_b_", "other 8"}};
  const auto resumed = [&](const std::string& metric, const Rows& rows) {
    const auto first = make("{patience: 2, metric: eval_a_loss}");
    const auto second = make("{patience: 2, metric: " + metric + "}");
    const auto start = [&](Callback& callback, const Rows& measured) {
      callback.on_training_start({1, 10, 100, 0.5, *model_, folder_, rising_, nullptr, nullptr, nullptr, {}, measured});
    };
    const auto tell = [&](Callback& callback, double value) {
      Metrics metrics{{"eval_a_loss", value}, {"eval_b_loss", value}};
      return callback.on_evaluation_end(view_, metrics) == Action::stop ? 'S' : '.';
    };
    start(*first, before);
    tell(*first, 1);
    tell(*first, 2);
    training::put_state(*second, "0", training::take_state(*first, "0"));
    start(*second, rows);
    return std::string{tell(*second, 3), tell(*second, 2.5)};
  };
  EXPECT_EQ(resumed("eval_a_loss", before), "SS");
  EXPECT_EQ(resumed("eval_a_loss", other_b), "SS");
  EXPECT_EQ(resumed("eval_a_loss", fewer_of_a), "..");
  EXPECT_EQ(resumed("eval_b_loss", before), "..");
  EXPECT_EQ(resumed("eval_a_loss, greater_is_better: true", before), "..");
}

}  // namespace
}  // namespace hone
