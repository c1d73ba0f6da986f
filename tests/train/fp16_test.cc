// Runs in fp16: the loss is scaled, and what becomes too large by that is made again with a smaller factor.
#include <gtest/gtest.h>

#include "base/log.h"
#include "hone/train_state.h"
#include "train/loss_scale.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;
using training::LossScale;

TEST(LossScale, FollowsTorchsGradScaler) {
  LossScale scale{8};
  const LossScaleSection options{.start = 8, .grow_every = 3};
  for (int i = 0; i < 3; ++i) scale.grow(options);
  EXPECT_EQ(scale.factor, 16);
  scale.grow(options), scale.grow(options);
  EXPECT_TRUE(scale.shrink());
  EXPECT_EQ(scale.factor, 8);
  scale.grow(options), scale.grow(options);
  EXPECT_EQ(scale.factor, 8) << "it counts from the overflow";
  scale.grow(options);
  EXPECT_EQ(scale.factor, 16);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(scale.shrink());
  EXPECT_EQ(scale.factor, 1);
  EXPECT_FALSE(scale.shrink());
  EXPECT_EQ(scale.overflows, 5);
}

class Half : public ::testing::Test {
 protected:
  Half() {
    log::set_sink([this](log::Level level, std::string_view text) {
      if (level >= log::Level::warning) messages_ += std::string(text) + "\n";
    });
  }
  ~Half() override { log::set_sink({}); }
  void run(const std::string& name, Overrides overrides, const TrainOptions& options = test::quiet_options()) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    train(test::small_recipe(folder_, overrides), options);
  }
  Overrides half(const Overrides& more = {}) {
    Overrides all{{"trainer.precision", "fp16"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<double> losses(const std::string& name) {
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains("loss")) values.push_back(line["loss"]);
    return values;
  }
  nlohmann::json state(const std::string& name, std::int64_t step) {
    return test::read_json(folder_ / name / test::step_folder(step) / "state/train.json");
  }
  // A copy of the run "whole", gone on with from a step of it: "again" has the same bits in the end.
  void expect_the_same_from(const std::string& step, const Overrides& overrides, std::int64_t last) {
    std::filesystem::copy(folder_ / "whole", folder_ / "again",
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    TrainOptions options = test::quiet_options();
    options.resume = step;
    run("again", overrides, options);
    test::expect_equal_runs(folder_ / "whole", folder_ / "again", last);
  }
  test::TempFolder folder_;
  std::string messages_;
};

TEST_F(Half, StaysNearFp32) {
  run("full", {{"trainer.precision", "fp32"}});
  run("half", half());
  const auto full = losses("full"), narrow = losses("half");
  ASSERT_EQ(full.size(), narrow.size());
  for (std::size_t i = 0; i < full.size(); ++i) EXPECT_NEAR(full[i], narrow[i], 0.01) << "line " << i;
  EXPECT_NE(full, narrow);
  const auto tensors = test::read_tensors(folder_ / "half" / test::step_folder(10) / "model.safetensors");
  EXPECT_EQ(tensors.begin()->second.scalar_type(), at::kHalf);
  EXPECT_NE(messages_.find("no fast kernels for it on the CPU"), messages_.npos) << messages_;
  EXPECT_EQ(test::metrics_of(folder_ / "half")[0]["loss_scale"], 65536);
}

// The factor is a power of two, and divided out of everything that is told and updated.
TEST_F(Half, TheFactorChangesNothingElse) {
  for (const char* optimizer : {"adamw", "sophia", "muon"}) {
    const std::string chosen = fmt::format("{{type: {}}}", optimizer);
    const Overrides more{{"optimizer", chosen}, {"callbacks", "[{type: norms, every: 1}]"}, {"trainer.steps", "3"}};
    Overrides small = half(more), large = half(more);
    small.emplace_back("trainer.loss_scale", "4096"), large.emplace_back("trainer.loss_scale", "8192");
    run("small", small), run("large", large);
    const auto a = test::metrics_of(folder_ / "small"), b = test::metrics_of(folder_ / "large");
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      for (const char* key : {"loss", "grad_norm"})
        if (a[i].contains(key)) {
          EXPECT_NEAR(a[i][key].get<double>(), b[i][key].get<double>(), 2e-3 * a[i][key].get<double>()) << optimizer;
        }
    for (const char* name : {"small", "large"}) std::filesystem::remove_all(folder_ / name);
  }
}

TEST_F(Half, WhatOverflowsIsLeftOutAndSaid) {
  const Overrides overrides = half({{"trainer.loss_scale", "{start: 1099511627776, grow_every: 2}"},
                                    {"trainer.steps", "40"},
                                    {"trainer.save.every", "20"}});
  run("whole", overrides);
  EXPECT_NE(messages_.find("step 1: gradients too large for fp16: no update, the loss is scaled by 549755813888"),
            messages_.npos)
      << messages_;
  const nlohmann::json middle = state("whole", 20), last = state("whole", 40);
  const auto overflows = last["loss_scale"]["overflows"].get<std::int64_t>();
  EXPECT_GT(overflows, 10);
  EXPECT_EQ(last["updates"], 40 - overflows);
  EXPECT_GT(middle["loss_scale"]["overflows"].get<std::int64_t>(), 5);
  EXPECT_LT(losses("whole").back(), losses("whole").front());

  expect_the_same_from("20", overrides, 40);
}

// Sophia's estimate has gradients of its own, of labels that the model draws: what overflows in them is lost, not kept.
TEST_F(Half, SophiasEstimateSurvivesAFactorThatIsTooLarge) {
  const Overrides overrides = half({{"optimizer", "{type: sophia, learning_rate: 1e-3, update_period: 1}"},
                                    {"trainer.loss_scale", "{start: 1099511627776, grow_every: 1}"},
                                    {"trainer.steps", "60"},
                                    {"trainer.save.every", "40"}});
  run("whole", overrides);
  EXPECT_LT(losses("whole").back(), losses("whole").front());
  EXPECT_NE(messages_.find("the optimizer keeps its older estimate, the loss is scaled by"), messages_.npos)
      << messages_;
  expect_the_same_from("40", overrides, 60);
}

TEST_F(Half, AnotherFirstFactorIsSaidToDoNothingAtAResume) {
  run("run", half({{"trainer.steps", "4"}}));
  run("run", half({{"trainer.steps", "6"}, {"trainer.loss_scale.start", "256"}}));
  EXPECT_NE(messages_.find("trainer.loss_scale.start is of no use here: the run goes on with its own factor, 65536"),
            messages_.npos)
      << messages_;
}

// A factor of 1 is counted on, too; and a run that comes to fp16 or leaves it has the factor of what it computes in.
TEST_F(Half, AResumeGoesOnWithTheFactor) {
  const Overrides from_one = half({{"trainer.loss_scale", "{start: 1, grow_every: 7}"}, {"trainer.save.every", "5"}});
  run("whole", from_one);
  expect_the_same_from("5", from_one, 10);
  EXPECT_EQ(state("again", 10)["loss_scale"]["factor"], 2);

  TrainOptions options = test::quiet_options();
  options.override_keys = {"trainer.precision"};
  run("again", {{"trainer.precision", "fp32"}, {"trainer.steps", "12"}}, options);
  EXPECT_FALSE(state("again", 12).contains("loss_scale"));
  run("again", half({{"trainer.steps", "14"}}), options);
  EXPECT_EQ(state("again", 14)["loss_scale"]["factor"], 65536);
}

TEST_F(Half, WhatIsNotFiniteByItselfStopsTheRun) {
  EXPECT_HONE_ERROR(run("run", half({{"optimizer", "{type: sgd, learning_rate: 1e6}"},
                                     {"trainer.max_grad_norm", "0"},
                                     {"trainer.steps", "60"}})),
                    not_finite, "loss nan");
}

// Weights that have no sum in fp32 get their gradients in fp16.
TEST_F(Half, FrozenWeightsStayAsTheyAre) {
  run("half", half({{"model.trainable", "[q_proj]"}}));
  EXPECT_NE(losses("half").back(), losses("half").front());
}

TEST_F(Half, IsRefusedWhereNobodyScales) {
  EXPECT_HONE_ERROR(run("run", {{"trainer.precision", "fp32"}, {"trainer.loss_scale", "8"}}), config,
                    "trainer.loss_scale: only a run in fp16 scales its loss");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
}  // namespace hone
