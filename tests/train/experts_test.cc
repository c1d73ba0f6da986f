// Training a model with routed experts: what a step means, what is logged, the balancing loss.
#include <gtest/gtest.h>

#include "harness/close.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

constexpr int kExperts = 6;

class Experts : public ::testing::Test {
 protected:
  // The numbers of a run, by name, one for each step; its first gradients are in <name>.safetensors.
  std::map<std::string, std::vector<double>> run(const std::string& name, Overrides overrides,
                                                 const std::string& more = "") {
    overrides.insert(overrides.begin(), {"model", test::routed_model(more)});
    overrides.emplace_back("run.folder", (folder_ / name).string());
    TrainOptions options = test::quiet_options();
    options.gradients = (folder_ / (name + ".safetensors")).string();
    train(test::small_recipe(folder_, overrides), options);
    std::map<std::string, std::vector<double>> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains("loss"))
        for (const auto& [key, value] : line.items())
          if (value.is_number()) values[key].push_back(value);
    return values;
  }
  static void expect_same(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, b[i])) << "line " << i;
  }
  test::TempFolder folder_;
};

constexpr const char* kBalanced = ", output_router_logits: true, router_aux_loss_coef: 0.1";

// Without the balancing loss, which is of a micro-batch by definition, nothing but the whole step counts.
TEST_F(Experts, BatchTimesAccumulationIsAllThatCounts) {
  const Overrides one{{"data.packing", "none"}, {"trainer.steps", "4"}, {"optimizer.learning_rate", "1e-3"}};
  Overrides wide = one, deep = one;
  wide.insert(wide.end(), {{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}});
  deep.insert(deep.end(), {{"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}});
  auto a = run("wide", wide), b = run("deep", deep);
  expect_same(a["loss"], b["loss"], 1e-6);
  expect_same(a["grad_norm"], b["grad_norm"], 1e-5);
  for (int e = 0; e < kExperts; ++e) {
    const std::string key = "router/share/" + std::to_string(e);
    expect_same(a[key], b[key], 1e-12);  // sums over micro-batches, no means of means
  }
  const auto wide_gradients = test::read_tensors(folder_ / "wide.safetensors"),
             deep_gradients = test::read_tensors(folder_ / "deep.safetensors");
  for (const auto& [name, gradient] : wide_gradients)
    EXPECT_TRUE(test::close_to_largest(gradient, deep_gradients.at(name), 1e-6)) << name;
}

TEST_F(Experts, LogsHowTokensAreShared) {
  auto plain = run("plain", {});
  ASSERT_EQ(plain["loss"].size(), 10u);
  EXPECT_FALSE(plain.contains("router/loss"));
  for (std::size_t i = 0; i < 10; ++i) {
    double sum = 0, most = 0;
    for (int e = 0; e < kExperts; ++e) {
      const double share = plain.at("router/share/" + std::to_string(e)).at(i);
      sum += share, most = std::max(most, share);
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    EXPECT_GE(plain["router/imbalance"].at(i), most * kExperts * (1 - 1e-12));  // a layer is never more even than all
    EXPECT_LE(plain["router/entropy"].at(i), std::log(kExperts));
    EXPECT_GT(plain["router/entropy"].at(i), 0);
  }
}

TEST_F(Experts, TheBalancingLossIsATermAndEvensThingsOut) {
  const Overrides steps{{"trainer.steps", "30"}};
  auto plain = run("plain", steps), balanced = run("balanced", steps, kBalanced);
  ASSERT_EQ(balanced["router/loss"].size(), 30u);
  ASSERT_EQ(plain["router/entropy"].size(), 30u);
  // Even experts give K = 2, times the coefficient; 0.1 is far from it where one expert has all.
  EXPECT_GT(balanced["router/loss"].front(), 0.2);
  EXPECT_LT(balanced["router/loss"].back(), 0.25);
  EXPECT_GT(balanced["loss"].front(), plain["loss"].front() + 0.2 - 1e-6);
  EXPECT_GT(balanced["router/entropy"].back(), plain["router/entropy"].back());
  EXPECT_LT(balanced["router/imbalance"].back(), plain["router/imbalance"].back());
}

TEST_F(Experts, CheckpointedBlocksGiveTheSameBits) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Overrides kept{{"trainer.precision", precision}, {"trainer.accumulate", "2"}};
    Overrides remade = kept;
    remade.emplace_back("trainer.checkpoint_blocks", "true");
    auto a = run(std::string("kept") + precision, kept, kBalanced);
    auto b = run(std::string("remade") + precision, remade, kBalanced);
    for (const std::string& name : nondeterministic_metrics()) a.erase(name), b.erase(name);
    EXPECT_EQ(a, b) << precision;
  }
}

TEST_F(Experts, Bf16StaysNearFp32AndLearns) {
  const Overrides steps{{"trainer.steps", "30"}};
  Overrides half = steps;
  half.emplace_back("trainer.precision", "bf16");
  auto full = run("fp32", steps, kBalanced), rounded = run("bf16", half, kBalanced);
  EXPECT_LT(full["loss"].back(), full["loss"].front() - 1);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_NEAR(full["loss"][i], rounded["loss"][i], 0.1) << i;
  EXPECT_NE(full["loss"], rounded["loss"]);
}

}  // namespace
}  // namespace hone
