// Training steps on several ranks: the same losses as on one, and on every rank the same weights.
#include "train/rank_runs.h"

namespace hone {
namespace {

class Ranks : public test::RankRuns {};
using test::RanksRun;

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
TEST_F(Ranks, WhatATeacherHasSaidTeachesTheSame) {
  const std::string texts = test::golden("train/distillation").string();
  check({{"data.train", "[{path: " + texts + "/stored.jsonl, columns: {logprobs: llm_text_generation_vllm_logprobs}}]"},
         {"data.max_length", "256"},
         {"model", test::golden("train/dpo").string()},
         {"tokenizer", "bytes"},
         {"objective", "{type: distillation, alpha: 0.7, temperature: 2, teacher_logprobs: true}"},
         {"optimizer.learning_rate", "1e-3"}});
}
// Of few tokens, and of the likeliest of what it has said there.
TEST_F(Ranks, ATeacherThatHasSaidLittleTeachesTheSame) {
  const std::string file = folder_.write("little.jsonl", test::little_said(40)).string();
  for (const char* more : {"", ", normalize_topk: true, top_k: 2"}) {
    SCOPED_TRACE(more);
    check({{"data.train", file},
           {"model", test::golden("train/dpo").string()},
           {"tokenizer", "bytes"},
           {"trainer.batch_size", "1"},
           {"objective", fmt::format("{{type: distillation, alpha: 0.9, teacher_logprobs: true{}}}", more)},
           {"optimizer.learning_rate", "1e-3"}});
  }
}

}  // namespace
}  // namespace hone
