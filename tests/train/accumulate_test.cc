// What a step means: rows of different lengths, micro-batches, packing and masks give the same loss and gradient.
#include <gtest/gtest.h>

#include "harness/close.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

class Steps : public ::testing::Test {
 protected:
  // Metrics and first-step gradients of a run.
  std::vector<double> losses(const std::string& name, Overrides overrides, const std::string& key = "loss") {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    TrainOptions options = test::quiet_options();
    options.gradients = (folder_ / (name + ".safetensors")).string();
    train(test::small_recipe(folder_, overrides), options);
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(key)) values.push_back(line[key]);
    return values;
  }
  void expect_same(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "line " << i;
  }
  void expect_same_gradients(const std::string& a, const std::string& b, double share) {
    const auto one = test::read_tensors(folder_ / (a + ".safetensors")),
               other = test::read_tensors(folder_ / (b + ".safetensors"));
    ASSERT_EQ(one.size(), other.size());
    ASSERT_GT(one.size(), 10u);
    for (const auto& [name, gradient] : one)
      EXPECT_TRUE(test::close_to_largest(gradient, other.at(name), share)) << name;
  }
  test::TempFolder folder_;
};

TEST_F(Steps, BatchTimesAccumulationIsAllThatCounts) {
  const Overrides unpacked{{"data.packing", "none"}, {"trainer.steps", "6"}};
  Overrides wide = unpacked, deep = unpacked, middle = unpacked;
  wide.insert(wide.end(), {{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}});
  deep.insert(deep.end(), {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"}});
  middle.insert(middle.end(), {{"trainer.batch_size", "4"}, {"trainer.accumulate", "2"}});
  const auto expected = losses("wide", wide);
  expect_same(losses("deep", deep), expected, 2e-6);
  expect_same(losses("middle", middle), expected, 2e-6);
  expect_same_gradients("wide", "deep", 1e-6);
}

TEST_F(Steps, OneStepIsTheSameToOneInAMillion) {
  const Overrides one{
      {"data.packing", "none"}, {"trainer.steps", "1"}, {"trainer.eval_every", "0"}, {"data.eval.held_out", "0"}};
  Overrides wide = one, deep = one;
  wide.insert(wide.end(), {{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}});
  deep.insert(deep.end(), {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"}});
  expect_same(losses("wide", wide), losses("deep", deep), 1e-6);
  expect_same(losses("wide2", wide, "grad_norm"), losses("deep2", deep, "grad_norm"), 1e-5);
  expect_same_gradients("wide", "deep", 1e-6);
}

TEST_F(Steps, PackedIsTheSameAsOneByOne) {
  // One step that holds the whole file, packed and not.
  Overrides packed{{"trainer.steps", "1"},
                   {"data.eval.held_out", "0"},
                   {"data.shuffle", "false"},
                   {"data.packing", "best_fit"},
                   {"trainer.accumulate", "1"}};
  Overrides single = packed;
  const Recipe probe = test::small_recipe(folder_, packed);
  const auto rows = [&](Packing packing) {
    Dataset::Options options{64, Overlong::split, packing, true, "", 0};
    return Dataset::make(probe.data.train, *load_tokenizer("bytes"), options)->rows();
  };
  packed.emplace_back("trainer.batch_size", std::to_string(rows(Packing::best_fit)));
  single.insert(single.end(), {{"data.packing", "none"}, {"trainer.batch_size", std::to_string(rows(Packing::none))}});
  EXPECT_LT(rows(Packing::best_fit), rows(Packing::none));
  expect_same(losses("packed", packed), losses("single", single), 2e-6);
  expect_same_gradients("packed", "single", 1e-5);
}

TEST_F(Steps, AMaskedMicroBatchCountsNothing) {
  folder_.write("train.jsonl",
                "{\"input_ids\": [5, 6, 7, 8], \"labels\": [-100, 6, 7, 8]}\n"
                "{\"input_ids\": [9, 6, 7], \"labels\": [9, -100, -100]}\n");  // its only label is of the first id:
                                                                               // nothing to learn
  const Overrides base{{"data.packing", "none"}, {"data.shuffle", "false"},   {"data.eval.held_out", "0"},
                       {"trainer.steps", "3"},   {"trainer.batch_size", "1"}, {"trainer.accumulate", "2"}};
  for (const double loss : losses("masked", base)) EXPECT_TRUE(std::isfinite(loss));
}

TEST_F(Steps, CheckpointedBlocksGiveTheSameBits) {
  const auto plain = losses("plain", {}), again = losses("again", {{"trainer.checkpoint_blocks", "true"}});
  EXPECT_EQ(plain, again);
  const Overrides drop{{"model.attention_dropout", "0.2"}};
  const auto dropped = losses("dropped", drop);
  EXPECT_NE(dropped, plain);
  EXPECT_EQ(dropped, losses("dropped again", {drop[0], {"trainer.checkpoint_blocks", "true"}}));
}

TEST_F(Steps, Bf16StaysNearFp32) {
  const auto full = losses("fp32", {}), half = losses("bf16", {{"trainer.precision", "bf16"}});
  expect_same(full, half, 0.1);
  EXPECT_NE(full, half);
  const auto tensors = test::read_tensors(folder_ / "bf16" / test::step_folder(10) / "model.safetensors");
  EXPECT_EQ(tensors.begin()->second.scalar_type(), at::kBFloat16);
}

TEST_F(Steps, LossFallsAndEvaluationsAreLogged) {
  const auto loss = losses("run", {{"trainer.steps", "30"}});
  EXPECT_LT(loss.back(), loss.front() - 1);
  const auto evaluations = losses("again", {{"trainer.steps", "30"}}, "eval_loss");
  EXPECT_EQ(evaluations.size(), 6u);
  EXPECT_LT(evaluations.back(), evaluations.front());
}

TEST_F(Steps, SeveralEvaluationSetsHaveNames) {
  const std::string news = folder_.write("news.jsonl", test::story_lines(9)).string();
  EXPECT_EQ(losses("run", {{"data.eval.news", news}}, "eval_news_loss").size(), 2u);
  EXPECT_EQ(losses("again", {{"data.eval.news", news}}, "eval_held_out_loss").size(), 2u);
}

TEST_F(Steps, LogLinesCoverAllStepsSinceTheLast) {
  const auto each = losses("each", {{"data.packing", "none"}}),
             fourth = losses("fourth", {{"data.packing", "none"}, {"trainer.log_every", "5"}});
  ASSERT_EQ(fourth.size(), 2u);
  double low = 1e9, high = 0;
  for (std::size_t i = 0; i < 5; ++i) low = std::min(low, each[i]), high = std::max(high, each[i]);
  EXPECT_GT(fourth[0], low);
  EXPECT_LT(fourth[0], high);
}

}  // namespace
}  // namespace hone
