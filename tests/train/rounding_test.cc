// Runs whose layers round weights and inputs (trainer.qat): that they learn, go on with the same bits, and are measured
// as what will be left of them.
#include <gtest/gtest.h>

#include "harness/close.h"
#include "hone/hub.h"
#include "hub/save.h"
#include "nn/fake_quantize.h"
#include "ops/fake_quantize.h"
#include "train/evaluate.h"
#include "train/together.h"

namespace hone {
namespace {

using test::Overrides;

class Rounding : public test::Together {
 protected:
  std::vector<double> losses(const std::string& name, Overrides overrides, const char* metric = "loss",
                             const TrainOptions& options = test::quiet_options()) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    train(test::small_recipe(folder_, overrides), options);
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(metric)) values.push_back(line.at(metric));
    return values;
  }
  bool same_weights(const std::string& a, const std::string& b) {
    const std::string file = test::step_folder(10) + "/model.safetensors";
    return test::read_text(folder_ / a / file) == test::read_text(folder_ / b / file);
  }
};

const std::vector<std::pair<std::string, Overrides>> kGrids = {
    {"int4", {{"trainer.qat", "{weight_dtype: int4, group_size: 16}"}}},
    {"rows", {{"trainer.qat", "{weight_dtype: int4, activation_dtype: int8}"}, {"trainer.precision", "bf16"}}},
    {"int8", {{"trainer.qat", "{weight_dtype: int8, activation_dtype: int8, group_size: 0}"}}},
    {"float8", {{"trainer.qat", "{weight_dtype: float8, activation_dtype: float8}"}}},
    {"later", {{"trainer.qat", "{weight_dtype: int4, fake_quant_after_n_steps: 6}"}}}};

TEST_F(Rounding, LearnsAndGoesOnWithTheSameBits) {
  const std::vector<double> plain = losses("plain", {});
  for (const auto& [name, overrides] : kGrids) {
    SCOPED_TRACE(name);
    const std::vector<double> whole = losses(name, overrides);
    ASSERT_EQ(whole.size(), plain.size());
    EXPECT_LT(whole.back(), 0.9 * whole.front());
    EXPECT_NE(whole, plain);
    TrainOptions back = test::quiet_options();
    losses(name + "-parts", overrides);
    back.resume = "4";
    losses(name + "-parts", overrides, "loss", back);
    EXPECT_TRUE(same_weights(name, name + "-parts"));
    EXPECT_EQ(test::fixed_metrics_of(folder_ / name), test::fixed_metrics_of(folder_ / (name + "-parts")));
  }
}

TEST_F(Rounding, BeginsAfterItsSteps) {
  const std::vector<double> plain = losses("plain", {}), later = losses("later", kGrids.back().second);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(plain[i], later[i]) << i;
  EXPECT_NE(plain[6], later[6]);
  EXPECT_NE(losses("once", {{"trainer.qat", "int4"}})[0], plain[0]);
}

// What is measured at the end is what the rounded weights give, which a model with these weights gives, too.
TEST_F(Rounding, EvaluationsAreOfTheRoundedWeights) {
  const std::vector<double> measured =
      losses("run", {{"trainer.qat", "{weight_dtype: int4, group_size: 8}"}}, "eval_loss");
  const auto last = folder_ / "run" / test::step_folder(10);
  const auto model = load_model(last.string(), Precision::fp32);
  nn::each_linear_weight_in_blocks(*model, [&](const std::string&, Weight& weight) {
    weight.fill(ops::off_grid(ops::on_grid(weight.use().detach(), Grid::int4, 8)));
  });
  const auto tokenizer = load_tokenizer(last.string());
  hub::save_model_folder(folder_ / "rounded", *model, hub::model_files(*model, last, tokenizer.get()), {});
  const std::vector<double> still = losses("still",
                                           {{"model", (folder_ / "rounded").string()},
                                            {"optimizer.learning_rate", "0"},
                                            {"optimizer.weight_decay", "0"},
                                            {"trainer.steps", "1"}},
                                           "eval_loss");
  EXPECT_EQ(measured.back(), still.back());
}

// To rounding, in fp64. The largest number of a group lies half-way between two codes of int4, by the definition of its
// scale, and goes where its last bit says: equal are steps whose weights are.
TEST_F(Rounding, MicroBatchesOfAnySizeLearnTheSame) {
  for (const auto& [grid, same] : {std::pair<std::string, std::size_t>{"int4", 2}, {"float8", 10}}) {
    const auto split = [&](const char* rows, const char* times, const char* again) {
      return losses(grid + rows, {{"trainer.precision", "fp64"}, {"trainer.qat", grid}, {"trainer.batch_size", rows},
                                  {"trainer.accumulate", times}, {"trainer.checkpoint_blocks", again}});
    };
    const auto one = split("4", "1", "false"), four = split("1", "4", "true");
    ASSERT_EQ(one.size(), 10u);
    ASSERT_EQ(four.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(one[i], four[i], i < same ? 1e-9 : 0.02) << grid << i;
  }
}

TEST_F(Rounding, WhatDoesNotGoTogetherIsRefused) {
  const auto refuse = [&](const Overrides& overrides, const char* fact) {
    EXPECT_HONE_ERROR(losses("no", overrides), config, fact);
  };
  refuse({{"trainer.qat", "{activation_dtype: int8}"}}, "weight_dtype: missing: int4, int8 or float8");
  refuse({{"trainer.qat", "{weight_dtype: int4, activation_dtype: int4}"}}, "got int4, expected int8 or float8");
  refuse({{"trainer.qat", "{weight_dtype: float8, activation_dtype: int8}"}}, "got int8, expected float8");
  refuse({{"trainer.qat", "{weight_dtype: float8, group_size: 16}"}}, "group_size: not with weight_dtype float8");
  refuse({{"trainer.qat", "{weight_dtype: int4, group_size: 24}"}}, "expected a multiple of group_size, 24");
  refuse({{"trainer.qat", "int4"}, {"parallel.fsdp", "2"}}, "not with parallel.fsdp");
  refuse({{"trainer.qat", "int4"}, {"trainer.fp8", "rowwise"}, {"trainer.precision", "bf16"}}, "not with trainer.fp8");
}

TEST_F(Rounding, PreflightSaysWhatIsRounded) {
  std::string all;
  for (const std::string& line : preflight(test::small_recipe(
           folder_, {{"trainer.qat", "{weight_dtype: int4, activation_dtype: int8, fake_quant_after_n_steps: 3}"},
                     {"run.folder", (folder_ / "said").string()}})))
    all += line + "\n";
  EXPECT_NE(all.find("weights of 14 linear layers rounded to int4 by groups of 32, what goes into them to int8, after "
                     "step 3"),
            std::string::npos)
      << all;
}

}  // namespace
}  // namespace hone
