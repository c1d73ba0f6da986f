// Ranks that compute micro-batches together (parallel.context): the losses, norms and metrics of one process, whatever
// looks across tokens.
#include <gmock/gmock.h>

#include "harness/errors.h"
#include "hone/trainer.h"
#include "train/meta_run.h"
#include "train/rank_runs.h"

namespace hone {
namespace {

class Contexts : public test::RankRuns {
 protected:
  Recipe with(Recipe recipe, std::int64_t context, std::int64_t fsdp = 1) {
    recipe.parallel.context = context, recipe.parallel.fsdp = fsdp;
    return recipe;
  }
  // Two ranks together, and two times two, with whole models and with shares. Sums are of another order.
  void check_together(const test::Overrides& overrides, double tolerance = 1e-12) {
    check_recipe(recipe(overrides), tolerance);
  }
  void check_a_few_steps(test::Overrides overrides) {
    overrides.emplace_back("trainer.steps", "5");
    check_recipe(recipe(overrides), 1e-12);
  }
  void check_recipe(const Recipe& all, double tolerance) {
    const test::RanksRun one = run(1, all);
    for (const int ranks : {2, 4})
      for (const int fsdp : {1, -1}) {
        SCOPED_TRACE(fmt::format("{} ranks, fsdp {}", ranks, fsdp));
        const test::RanksRun many = run(ranks, with(all, 2, fsdp));
        expect_close(one, many, tolerance);
        for (const auto& weights : many.weights) expect_same_weights(weights, many.weights[0]);
      }
  }
};

TEST_F(Contexts, ALlamaLearnsTheSameOfPaddedRows) { check_together({}); }
TEST_F(Contexts, ALlamaLearnsTheSameOfPackedRows) {
  check_together({{"data.packing", "best_fit"}, {"data.max_length", "96"}, {"trainer.checkpoint_blocks", "true"}});
}
TEST_F(Contexts, InFp32NearlyTheSame) { check_together({{"trainer.precision", "fp32"}}, 1e-6); }

TEST_F(Contexts, WindowsAndSinksGoOverTheCut) {
  check_together({{"model", "{type: mistral, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                            "num_attention_heads: 4, num_key_value_heads: 2, sliding_window: 7, "
                            "max_position_embeddings: 256}"}});
  check_a_few_steps({{"model", "{type: gpt_oss, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, "
                            "num_attention_heads: 4, num_key_value_heads: 2, head_dim: 8, num_local_experts: 4, "
                            "num_experts_per_tok: 2, sliding_window: 9, max_position_embeddings: 256}"}});
}

// Two ranks have the same head of keys; a fourth of all heads each.
TEST_F(Contexts, HeadsOfKeysThatSeveralRanksHave) {
  const Recipe all = recipe({{"model", "{type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                                       "num_attention_heads: 8, num_key_value_heads: 2, head_dim: 4, "
                                       "max_position_embeddings: 256}"},
                             {"trainer.accumulate", "3"}});
  const test::RanksRun one = run(1, all);
  expect_close(one, run(4, with(all, 4)), 1e-12);
  expect_close(one, run(4, with(all, -1, -1)), 1e-12);
}

// Balancing losses are of a micro-batch's tokens, wherever they are.
TEST_F(Contexts, RoutedExpertsLearnTheSame) {
  check_together({{"model", test::kRouted}});
}

TEST_F(Contexts, DropoutIsOfTokensAndHeadsWhereverTheyAre) {
  check_a_few_steps({{"model", "{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4, n_positions: 256, resid_pdrop: 0.2, "
                            "embd_pdrop: 0.2, attn_pdrop: 0.2}"},
                  {"trainer.neftune_noise_alpha", "5"}});
}

// Heads are longer by what says where their tokens stand, whichever rank they come from.
TEST_F(Contexts, ScoresThatFallWithTheDistanceAreTheSame) {
  check_a_few_steps({{"model", "{type: bloom, hidden_size: 32, n_layer: 2, n_head: 4, hidden_dropout: 0.2, "
                            "attention_dropout: 0.2}"}});
  check_a_few_steps({{"model", "{type: falcon, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, "
                            "alibi: true, ffn_hidden_size: 48}"}});
}

TEST_F(Contexts, AdaptersLearnTheSame) {
  check_a_few_steps({{"model", test::golden("train/dpo").string()},
                  {"tokenizer", "bytes"},
                  {"adapter", "{type: lora, rank: 4, dropout: 0.2, targets: all-linear}"}});
}

TEST_F(Contexts, LayersThatShareKeysLearnTheSame) {
  check_a_few_steps({{"model", "{type: gemma4_text, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 4, "
                            "num_attention_heads: 2, num_key_value_heads: 1, head_dim: 8, global_head_dim: 12, "
                            "sliding_window: 9, num_kv_shared_layers: 2, hidden_size_per_layer_input: 6, "
                            "max_position_embeddings: 256, layer_types: [sliding_attention, full_attention, "
                            "sliding_attention, full_attention]}"},
                  {"trainer.checkpoint_blocks", "true"}});
}

TEST_F(Contexts, LatentsAndCorrectedRoutersLearnTheSame) {
  check_a_few_steps({{"model", "{type: deepseek_v3, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, "
                            "num_attention_heads: 2, num_key_value_heads: 2, kv_lora_rank: 8, q_lora_rank: null, "
                            "qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8, n_routed_experts: 6, n_group: 2, "
                            "topk_group: 1, num_experts_per_tok: 2, moe_intermediate_size: 12, "
                            "first_k_dense_replace: 1, max_position_embeddings: 256, router_bias_update_rate: 0.01}"}});
}

TEST_F(Contexts, MemoriesLearnTheSame) {
  check_a_few_steps({{"model", "{type: xlstm, hidden_size: 16, num_heads: 2, num_hidden_layers: 2, head_dim: 8}"}});
  check_a_few_steps({{"model", "{type: mamba2, hidden_size: 16, num_heads: 4, head_dim: 8, state_size: 8, n_groups: 2, "
                            "num_hidden_layers: 2, expand: 2}"}});
  check_a_few_steps({{"model", "{type: mamba, hidden_size: 16, state_size: 4, num_hidden_layers: 2}"}});
}

TEST_F(Contexts, ATeacherTeachesTheSame) {
  const std::string texts = test::golden("train/distillation").string();
  check_a_few_steps({{"data.train", texts + "/texts.jsonl"},
                  {"data.max_length", "256"},
                  {"model", test::golden("train/dpo").string()},
                  {"tokenizer", "bytes"},
                  {"objective", "{type: distillation, alpha: 0.7, temperature: 2, beta: 0.3, teacher: " + texts +
                                    "/teacher}"},
                  {"optimizer.learning_rate", "1e-3"}});
}
TEST_F(Contexts, WhatATeacherHasSaidTeachesTheSame) {
  const std::string texts = test::golden("train/distillation").string();
  check_a_few_steps({{"data.train", "[{path: " + texts +
                                        "/stored.jsonl, columns: {logprobs: llm_text_generation_vllm_logprobs}}]"},
                     {"data.max_length", "256"},
                     {"model", test::golden("train/dpo").string()},
                     {"tokenizer", "bytes"},
                     {"objective", "{type: distillation, alpha: 0.7, temperature: 2, teacher_logprobs: true}"},
                     {"optimizer.learning_rate", "1e-3"}});
}

// Of most ranks' tokens nothing was said; rows of several records.
TEST_F(Contexts, ATeacherThatHasSaidLittleTeachesTheSame) {
  const std::string file = folder_.write("little.jsonl", test::little_said(40)).string();
  for (const char* packing : {"none", "best_fit"})
    check_a_few_steps({{"data.train", file},
                       {"data.packing", packing},
                       {"model", test::golden("train/dpo").string()},
                       {"tokenizer", "bytes"},
                       {"objective", "{type: distillation, alpha: 0.9, teacher_logprobs: true, normalize_topk: true}"},
                       {"optimizer.learning_rate", "1e-3"}});
}

// Of four ranks the first ones have prompts alone; documents of three tokens, of which a rank has none.
TEST_F(Contexts, RanksWithoutLabelsAndWithoutTokensGoWithTheOthers) {
  std::string prompts, few;
  for (int i = 0; i < 30; ++i) {
    prompts += fmt::format("{{\"prompt\": \"a prompt of many letters, number {0}: \", \"completion\": \"{0}\"}}\n", i);
    few += fmt::format("{{\"text\": \"{}\"}}\n", i % 10 == 0 ? "a" : std::to_string(10 + i));
  }
  const std::string one_head = "{type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                               "num_attention_heads: 4, num_key_value_heads: 1, max_position_embeddings: 256}";
  for (const auto& data : {folder_.write("prompts.jsonl", prompts), folder_.write("few.jsonl", few)})
    for (const std::string& model : {one_head, std::string(test::kRouted)}) {
      SCOPED_TRACE(data.string() + " " + model);
      const Recipe all = recipe({{"data.train", data.string()},
                                 {"trainer.batch_size", "1"},
                                 {"trainer.steps", "5"},
                                 {"model", model}});
      const test::RanksRun one = run(1, all);
      expect_close(one, run(4, with(all, 4)), 1e-12);
      expect_close(one, run(4, with(all, 2, -1)), 1e-12);
    }
}

TEST_F(Contexts, ThePlanHasActivationsOfOwnTokens) {
  const Recipe all = recipe({{"model", "{type: llama, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4, "
                                       "num_attention_heads: 4, num_key_value_heads: 2, "
                                       "max_position_embeddings: 256}"}});
  const training::Inputs inputs = training::load_inputs(all, "");
  const training::MemoryPlan whole = training::plan_memory(all, inputs, {.ranks = 2}),
                             together = training::plan_memory(with(all, 2), inputs, {.ranks = 2});
  EXPECT_EQ(together.weights, whole.weights);
  EXPECT_LT(static_cast<double>(together.kept), 0.6 * static_cast<double>(whole.kept));
  EXPECT_GT(static_cast<double>(together.kept), 0.5 * static_cast<double>(whole.kept));
}

TEST_F(Contexts, TheSameRanksGiveTheSameBits) {
  for (const int fsdp : {1, -1}) {
    const Recipe all = with(recipe({{"trainer.precision", "bf16"}}), 2, fsdp);
    const test::RanksRun one = run(4, all), again = run(4, all);
    EXPECT_EQ(one.losses, again.losses);
    EXPECT_EQ(one.norms, again.norms);
    expect_same_weights(one.weights[0], again.weights[0]);
  }
}

}  // namespace
}  // namespace hone
