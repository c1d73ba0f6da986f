// Numbers of the training loss besides it: over micro-batches, steps, ranks and processes they are those of the whole.
#include <gtest/gtest.h>

#include <cmath>

#include "train/together.h"

namespace hone {
namespace {

constexpr const char* kAsked = "{type: causal_lm, z_loss: 1e-3, metrics: [accuracy, perplexity, z_loss, weight_sum]}";

class LossMetrics : public test::Together {
 protected:
  std::vector<nlohmann::json> lines(const std::string& name) {
    std::vector<nlohmann::json> all;
    for (const auto& line : test::metrics_of(in(name)))
      if (line.contains("loss")) all.push_back(line);
    return all;
  }
};

TEST_F(LossMetrics, AreLoggedOverSteps) {
  run(1, "each", {{"objective", kAsked}, {"trainer.log_every", "1"}});
  run(1, "window",
      {{"objective", kAsked}, {"trainer.log_every", "4"}, {"trainer.log_modes", "[mean_nopostfix, single]"}});
  const auto each = lines("each"), window = lines("window");
  ASSERT_EQ(each.size(), 8u);
  ASSERT_EQ(window.size(), 2u);
  double weights = 0, right = 0, z = 0;
  for (int i = 4; i < 8; ++i) {
    const double weight = each[i]["weight_sum"];
    EXPECT_EQ(weight, std::round(weight));
    weights += weight;
    right += weight * each[i]["accuracy"].get<double>();
    z += weight * each[i]["z_loss"].get<double>();
    EXPECT_GT(each[i]["z_loss"], 0);
    EXPECT_LT(each[i]["z_loss"], each[i]["loss"]);
    EXPECT_NEAR(each[i]["perplexity"].get<double>(), std::exp(each[i]["loss"].get<double>()), 1e-9);
  }
  EXPECT_NEAR(window[1]["accuracy"].get<double>(), right / weights, 1e-9);
  EXPECT_NEAR(window[1]["z_loss"].get<double>(), z / weights, 1e-12);
  EXPECT_NEAR(window[1]["weight_sum"].get<double>(), weights / 4, 1e-9);
  EXPECT_NEAR(window[1]["perplexity"].get<double>(), std::exp(window[1]["loss"].get<double>()), 1e-9);
  EXPECT_NEAR(window[1]["perplexity_single"].get<double>(), each[7]["perplexity"].get<double>(), 1e-6);
}

TEST_F(LossMetrics, AreTheSameInMicroBatchesAndOnRanksAndChangeNothing) {
  run(1, "one", {{"objective", kAsked}, {"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}});
  run(1, "four", {{"objective", kAsked}});
  run(2, "ranks", {{"objective", kAsked}});
  run(1, "none", {{"objective", "{type: causal_lm, z_loss: 1e-3}"}});
  const auto one = lines("one"), four = lines("four"), ranks = lines("ranks"), none = lines("none");
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (const char* name : {"accuracy", "z_loss", "weight_sum", "perplexity"}) {
      EXPECT_NEAR(four[i][name].get<double>(), one[i][name].get<double>(), 1e-9) << name;
      EXPECT_NEAR(ranks[i][name].get<double>(), one[i][name].get<double>(), 1e-9) << name;
      EXPECT_FALSE(none[i].contains(name));
    }
    EXPECT_EQ(none[i]["loss"], four[i]["loss"]);
  }
  const std::string model = test::step_folder(8) + "/model.safetensors";
  EXPECT_TRUE(test::read_text(in("none") / model) == test::read_text(in("four") / model));
}

TEST_F(LossMetrics, ARunThatGoesOnLogsTheSame) {
  const test::Overrides kept{{"objective", kAsked},
                             {"optimizer.schedule", "constant"},
                             {"trainer.log_every", "4"},
                             {"trainer.save.every", "3"}};
  run(1, "whole", kept);
  test::Overrides part = kept;
  part.emplace_back("trainer.steps", "6");  // in the middle of a line
  run(1, "again", part);
  std::filesystem::remove_all(in("again") / test::step_folder(6));
  run(1, "again", kept);
  EXPECT_EQ(test::fixed_metrics_of(in("again")), test::fixed_metrics_of(in("whole")));
}

// An adapter on the head has the logits made apart.
TEST_F(LossMetrics, AnAdaptedHeadIsMeasuredToo) {
  run(1, "base", {{"trainer.steps", "3"}});
  run(1, "lora",
      {{"objective", kAsked},
       {"model", in("base").string()},
       {"adapter", "{type: lora, rank: 2, targets: [lm_head]}"},
       {"trainer.steps", "3"}});
  for (const auto& line : lines("lora")) {
    EXPECT_GE(line["accuracy"], 0);
    EXPECT_GT(line["z_loss"], 0);
    EXPECT_GT(line["weight_sum"], 0);
  }
}

}  // namespace
}  // namespace hone
