// Early stopping: patience, the smallest drop that counts, state across a restart.
#include <gtest/gtest.h>

#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/model.h"
#include "hone/registry.h"
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
  // The actions that a series of evaluation losses is answered with: "." goes on, "S" stops.
  std::string answers(Callback& callback, const std::vector<double>& losses) {
    std::string text;
    for (const double loss : losses)
      text += callback.on_evaluation_end(view_, {{"eval_loss", loss}}) == Action::stop ? 'S' : '.';
    return text;
  }
  std::unique_ptr<Model> model_ = load_model(test::golden("models/llama").string(), Precision::fp32);
  std::string folder_;
  TrainView view_{1, 10, 100, 0.5, *model_, folder_};
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
  std::map<std::string, double> state;
  before->visit_state([&](const std::string& name, double& value) { state[name] = value; });
  after->visit_state([&](const std::string& name, double& value) { value = state.at(name); });
  EXPECT_EQ(answers(*after, {3.2}), "S");
}

}  // namespace
}  // namespace hone
