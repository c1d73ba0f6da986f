// Runs of a recipe on several ranks, which are threads here, and on one.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dist/ranks.h"
#include "train/complete.h"
#include "train/context.h"
#include "train/inputs.h"
#include "train/ranks.h"
#include "train/stepper.h"
#include "train/support.h"

namespace hone::test {

inline constexpr const char* kRouted =
    "{type: qwen3_moe, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 2, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 8, max_position_embeddings: 256, num_experts: 6, num_experts_per_tok: 2, "
    "moe_intermediate_size: 20, output_router_logits: true, router_aux_loss_coef: 0.1}";

// Records of bytes, of each of which a teacher has said something at one token alone.
inline std::string little_said(int records) {
  std::string lines;
  for (int i = 0; i < records; ++i) {
    const std::string text = "record " + std::to_string(100 + i);
    const std::size_t said = 1 + static_cast<std::size_t>(i) * 3 % (text.size() - 1);
    std::string log_probs = "null", ids = "null";
    for (std::size_t at = 1; at <= text.size(); ++at) {  // with the end of the sequence
      log_probs += at == said ? ", [-0.5, -1.5, -2.25]" : ", null";
      ids += at == said ? ", [" + std::to_string(97 + i % 20) + ", 32, 5]" : ", null";
    }
    lines += R"({"text": ")" + text + R"(", "logprobs": [)" + log_probs + R"(], "target_token_ids": [)" + ids + "]}\n";
  }
  return lines;
}

struct RanksRun {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> tokens;
  std::map<std::string, double> metrics;               // of the last step
  std::vector<std::map<std::string, Tensor>> weights;  // of each rank
};

class RankRuns : public ::testing::Test {
 protected:
  Recipe recipe(const Overrides& overrides) {
    Overrides all{{"data.cache", "none"},      {"data.eval.held_out", "0"}, {"trainer.precision", "fp64"},
                  {"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}, {"trainer.steps", "20"},
                  {"data.packing", "none"}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return training::completed_for_preview(small_recipe(folder_, all));
  }

  RanksRun run(int ranks, const Recipe& recipe) {
    RanksRun made;
    made.weights.resize(static_cast<std::size_t>(ranks));
    std::mutex mutex;
    const auto body = [&](const World& world) {
      training::Inputs inputs = training::load_inputs(recipe, "");
      training::make_weights(inputs, recipe, world, false);
      training::Frame frame;
      frame.model = inputs.model;
      frame.chosen = recipe.optimizer;
      frame.precision = recipe.trainer.precision;
      frame.steps = training::steps_of(recipe, inputs);
      frame.init(world, training::is_sharded(recipe, world), training::slices_of(recipe, world.size()));
      training::Stepper stepper(recipe, frame, training::loader_options(recipe, inputs), inputs.train, world);
      stepper.begin({{inputs.train->as_dataset()}, training::evaluate_options(recipe, inputs), ""});
      for (std::int64_t step = 0; step < frame.steps; ++step) {
        const training::StepReport report = stepper.step();
        const std::lock_guard lock(mutex);
        if (!world.is_first()) continue;
        made.losses.push_back(report.loss());
        made.norms.push_back(report.grad_norm);
        made.tokens.push_back(report.tokens);
        made.metrics.clear();
        for (const auto& [name, metric] : report.metrics) made.metrics[name] = training::value_of(metric);
      }
      std::map<std::string, Tensor>& weights = made.weights[static_cast<std::size_t>(world.rank())];
      training::Updater& updater = stepper.updater();
      updater.each_master([&](training::Slice& slice) { weights[slice.name] = updater.whole(slice).clone(); });
    };
    ranks == 1 ? body(World()) : on_ranks(ranks, body);
    return made;
  }

  static void expect_same_weights(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, value] : a) EXPECT_TRUE(at::equal(value, b.at(name))) << name;
  }
  static void expect_close(const RanksRun& a, const RanksRun& b, double tolerance) {
    EXPECT_EQ(a.tokens, b.tokens);
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (std::size_t i = 0; i < a.losses.size(); ++i) {
      EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::max(1.0, std::abs(a.losses[i]))) << "step " << i + 1;
      EXPECT_NEAR(a.norms[i], b.norms[i], 100 * tolerance * std::max(1.0, a.norms[i])) << "step " << i + 1;
    }
    ASSERT_EQ(a.metrics.size(), b.metrics.size());
    for (const auto& [name, value] : a.metrics)
      EXPECT_NEAR(value, b.metrics.at(name), 1e3 * tolerance * std::max(1.0, std::abs(value))) << name;
  }
  // On 1, 2 and 4 ranks.
  void check(const Overrides& overrides, double tolerance = 1e-12) {
    const Recipe all = recipe(overrides);
    const RanksRun one = run(1, all);
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      const RanksRun many = run(ranks, all);
      expect_close(one, many, tolerance);
      for (const auto& weights : many.weights) expect_same_weights(weights, many.weights[0]);
      SCOPED_TRACE("sharded");
      Recipe sharded = all;
      sharded.parallel.fsdp = -1;
      const RanksRun shares = run(ranks, sharded);
      expect_close(one, shares, tolerance);
      for (const auto& [name, value] : one.weights[0])
        EXPECT_LT((value - shares.weights[0].at(name)).abs().max().item<double>(), 1e3 * tolerance) << name;
    }
  }
  TempFolder folder_;
};

}  // namespace hone::test
