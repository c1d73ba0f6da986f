// Training steps on several ranks: the same losses as on one, and on every rank the same weights.
#include <gtest/gtest.h>

#include <mutex>

#include "dist/ranks.h"
#include "train/complete.h"
#include "train/inputs.h"
#include "train/ranks.h"
#include "train/stepper.h"
#include "train/support.h"

namespace hone {
namespace {

struct RanksRun {
  std::vector<double> losses, norms;
  std::vector<std::int64_t> tokens;
  std::map<std::string, double> metrics;               // of the last step
  std::vector<std::map<std::string, Tensor>> weights;  // of each rank
};

class Ranks : public ::testing::Test {
 protected:
  Recipe recipe(const test::Overrides& overrides) {
    test::Overrides all{{"data.cache", "none"},      {"data.eval.held_out", "0"}, {"trainer.precision", "fp64"},
                        {"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}, {"trainer.steps", "20"},
                        {"data.packing", "none"}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return training::completed_for_preview(test::small_recipe(folder_, all));
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
      frame.init(world, training::is_sharded(recipe, world));
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
    ranks == 1 ? body(World()) : test::on_ranks(ranks, body);
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
  void check(const test::Overrides& overrides, double tolerance = 1e-12) {
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
  test::TempFolder folder_;
};

TEST_F(Ranks, ALlamaLearnsTheSame) { check({}); }
TEST_F(Ranks, InFp32NearlyTheSame) { check({{"trainer.precision", "fp32"}}, 1e-6); }
TEST_F(Ranks, RoutedExpertsLearnTheSame) { check({{"model", test::routed_model()}}); }

// Layers that share keys and are made again in backward, factors of layers that are buffers.
TEST_F(Ranks, LayersThatShareKeysLearnTheSame) {
  check({{"model", "{type: gemma4_text, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 4, "
                   "num_attention_heads: 2, num_key_value_heads: 1, head_dim: 8, global_head_dim: 12, "
                   "sliding_window: 9, num_kv_shared_layers: 2, hidden_size_per_layer_input: 6, "
                   "max_position_embeddings: 256, layer_types: [sliding_attention, full_attention, "
                   "sliding_attention, full_attention]}"},
         {"trainer.checkpoint_blocks", "true"}});
}

// Buffers that move by the tokens of all ranks.
TEST_F(Ranks, CorrectedRoutersLearnTheSame) {
  check({{"model", "{type: deepseek_v3, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, "
                   "num_attention_heads: 2, num_key_value_heads: 2, kv_lora_rank: 8, q_lora_rank: null, "
                   "qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8, n_routed_experts: 6, n_group: 2, "
                   "topk_group: 1, num_experts_per_tok: 2, moe_intermediate_size: 12, first_k_dense_replace: 1, "
                   "max_position_embeddings: 256, router_bias_update_rate: 0.01}"}});
}

TEST_F(Ranks, TheSameRanksGiveTheSameBits) {
  const Recipe all = recipe({{"trainer.precision", "fp32"}});
  const RanksRun one = run(2, all), again = run(2, all);
  EXPECT_EQ(one.losses, again.losses);
  EXPECT_EQ(one.norms, again.norms);
  expect_same_weights(one.weights[0], again.weights[0]);
}

// With one micro-batch a rank and without clipping: the norm alone is added up in another order.
TEST_F(Ranks, SharesGiveTheBitsOfWholeModels) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    for (const char* again : {"false", "true"}) {
      Recipe all = recipe({{"trainer.precision", precision},
                           {"trainer.max_grad_norm", "0"},
                           {"trainer.accumulate", "2"},
                           {"trainer.checkpoint_blocks", again}});
      const RanksRun whole = run(2, all);
      all.parallel.fsdp = -1;
      const RanksRun shares = run(2, all);
      EXPECT_EQ(whole.losses, shares.losses);
      expect_same_weights(whole.weights[0], shares.weights[0]);
    }
  }
}

TEST_F(Ranks, ABertLearnsTheSame) {
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += fmt::format("{{\"text\": \"{} times\", \"label\": \"{}\"}}\n", i, i % 3);
  check({{"data.train", folder_.write("labelled.jsonl", lines).string()},
         {"objective", "classification"},
         {"model",
          "{type: bert, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
          "num_attention_heads: 2, max_position_embeddings: 64}"}});
}

TEST_F(Ranks, PairsAndAdaptersLearnTheSame) {
  const std::string base = test::golden("train/dpo").string();
  const test::Overrides pairs{{"data.train", base + "/pairs.jsonl"},
                              {"data.max_length", "256"},
                              {"model", base},
                              {"tokenizer", "bytes"},
                              {"objective", "dpo"},
                              {"optimizer.learning_rate", "1e-3"}};
  check(pairs);
  test::Overrides adapter = pairs;
  adapter.insert(adapter.end(),
                 {{"adapter", "{type: lora, rank: 4, dropout: 0.2}"}, {"objective", "{type: dpo, rpo_alpha: 0.5}"}});
  check(adapter);
  test::Overrides orpo = pairs;
  orpo.emplace_back("objective", "orpo");
  check(orpo);
  test::Overrides judged = pairs;
  judged.insert(judged.end(), {{"objective", "kto"},
                               {"data.train", test::golden("train/kto/answers.jsonl").string()},
                               {"trainer.neftune_noise_alpha", "5"}});
  check(judged);
  test::Overrides reward = pairs;
  reward.emplace_back("objective", "{type: reward, center_rewards_coefficient: 0.1}");
  check(reward);
}

// Each rank has a teacher of its own, whole, whatever is shared out.
TEST_F(Ranks, ATeacherTeachesTheSame) {
  const std::string texts = test::golden("train/distillation").string();
  check({{"data.train", texts + "/texts.jsonl"},
         {"data.max_length", "256"},
         {"model", test::golden("train/dpo").string()},
         {"tokenizer", "bytes"},
         {"objective", "{type: distillation, alpha: 0.7, temperature: 2, beta: 0.3, teacher: " + texts + "/teacher}"},
         {"optimizer.learning_rate", "1e-3"}});
}

}  // namespace
}  // namespace hone
