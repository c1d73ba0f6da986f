// Ranks that each have a slice of the weights (parallel.tensor): the losses, norms and metrics of one process.
#include <gmock/gmock.h>

#include "hone/trainer.h"
#include "train/meta_run.h"
#include "train/rank_runs.h"

namespace hone {
namespace {

class Tensors : public test::RankRuns {
 protected:
  Recipe with(Recipe recipe, std::int64_t tensor, std::int64_t fsdp = 1) {
    recipe.parallel.tensor = tensor, recipe.parallel.fsdp = fsdp;
    return recipe;
  }
  // Two ranks, two times two with shares of each slice, and four.
  void check_slices(const test::Overrides& overrides, double tolerance = 1e-12) {
    const Recipe all = recipe(overrides);
    const test::RanksRun one = run(1, all);
    for (const auto& [ranks, tensor, fsdp] : {std::tuple{2, 2, 1}, {4, 2, -1}, {4, -1, 1}}) {
      SCOPED_TRACE(fmt::format("{} ranks, tensor {}", ranks, tensor));
      const test::RanksRun many = run(ranks, with(all, tensor, fsdp));
      expect_close(one, many, tolerance);
      for (const auto& weights : many.weights) expect_same_weights(weights, many.weights[0]);
      for (const auto& [name, value] : one.weights[0])
        EXPECT_LT((value - many.weights[0].at(name)).abs().max().item<double>(), 1e3 * tolerance) << name;
    }
  }
  void check_a_few_steps(test::Overrides overrides) {
    overrides.emplace_back("trainer.steps", "5");
    check_slices(overrides);
  }
};

// Four ranks: two have the same head of keys.
TEST_F(Tensors, ALlamaLearnsTheSameOfPaddedRows) {
  check_slices({{"model", "{type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                          "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256}"}});
}
TEST_F(Tensors, ALlamaLearnsTheSameOfPackedRows) {
  check_a_few_steps({{"data.packing", "best_fit"},
                     {"data.max_length", "96"},
                     {"trainer.checkpoint_blocks", "true"},
                     {"model", "{type: llama, hidden_size: 32, intermediate_size: 50, num_hidden_layers: 2, "
                               "num_attention_heads: 4, num_key_value_heads: 4, max_position_embeddings: 256}"}});
}
TEST_F(Tensors, InFp32NearlyTheSame) {
  check_slices({{"trainer.precision", "fp32"},
                {"trainer.steps", "5"},
                {"model", "{type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                          "num_attention_heads: 4, num_key_value_heads: 4, max_position_embeddings: 256}"}},
               1e-6);
}

// Biases that are sliced, of the head too, and such that are added once; norms of heads; tied tables; windows.
TEST_F(Tensors, BiasesNormsAndTiedHeadsLearnTheSame) {
  const std::string sizes = ", hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, num_attention_heads: 4, "
                            "num_key_value_heads: 2, max_position_embeddings: 256";
  check_a_few_steps({{"model", "{type: qwen2, tie_word_embeddings: true" + sizes + "}"}});
  check_a_few_steps({{"model", "{type: qwen3, head_dim: 6, tie_word_embeddings: true" + sizes + "}"}});
  check_a_few_steps({{"model", "{type: llama, attention_bias: true, mlp_bias: true" + sizes + "}"}});
  check_a_few_steps({{"model", "{type: mistral, sliding_window: 7" + sizes + "}"}});
  check_a_few_steps({{"model", "{type: llama, pad_token_id: 101" + sizes + "}"}});  // an e, whose row learns nothing
  // The head's, and those by which a router's scores are corrected.
  check_a_few_steps({{"model", "{type: ernie4_5_moe, use_bias: true, router_bias_update_rate: 0.01, moe_k: 2, "
                               "moe_num_experts: 4, moe_intermediate_size: 12, moe_layer_start_index: 1" +
                                   sizes + "}"}});
}

// Each rank has columns of each expert; a balancing loss is of a micro-batch's tokens, wherever they are.
TEST_F(Tensors, RoutedExpertsLearnTheSame) {
  check_slices({{"model", test::kRouted}});
  check_a_few_steps({{"model", "{type: qwen2_moe, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 2, "
                               "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256, "
                               "num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 20, "
                               "shared_expert_intermediate_size: 18}"}});
}

TEST_F(Tensors, LossesOfLabelsAreThoseOfWholeRows) {
  for (const char* objective :
       {"{type: causal_lm, label_smoothing: 0.1, z_loss: 1e-3, metrics: [accuracy, z_loss, perplexity]}",
        "{type: causal_lm, loss_type: dft, metrics: [accuracy]}"})
    check_a_few_steps({{"objective", objective},
                       {"model", "{type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                                 "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256}"}});
}

TEST_F(Tensors, DropoutIsOfTokensAndHeadsWhereverTheyAre) {
  check_a_few_steps({{"trainer.neftune_noise_alpha", "5"},
                     {"model", "{type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                               "num_attention_heads: 4, num_key_value_heads: 2, attention_dropout: 0.2, "
                               "max_position_embeddings: 256}"}});
}

// A and B are whole, and each rank computes with what belongs to its slice.
TEST_F(Tensors, AdaptersLearnTheSame) {
  check_a_few_steps({{"model", test::golden("train/dpo").string()},
                     {"tokenizer", "bytes"},
                     {"adapter", "{type: lora, rank: 4, targets: all-linear}"}});
}

// Blocks of other families that consist of the same layers.
TEST_F(Tensors, RelativesLearnTheSame) {
  const std::string sizes = ", hidden_size: 24, intermediate_size: 40, num_hidden_layers: 2, num_attention_heads: 4, "
                            "num_key_value_heads: 2, max_position_embeddings: 256";
  for (const char* other :
       {"{type: mixtral, num_local_experts: 4, num_experts_per_tok: 2", "{type: exaone4, head_dim: 8",
        "{type: glm4_moe, head_dim: 8, n_routed_experts: 4, n_group: 2, topk_group: 1, num_experts_per_tok: 2, "
        "moe_intermediate_size: 12, first_k_dense_replace: 1",
        "{type: mellum, head_dim: 8, sliding_window: 7, layer_types: [sliding_attention, full_attention], "
        "num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 12, mlp_layer_types: [sparse, dense]",
        "{type: granite, residual_multiplier: 0.5, embedding_multiplier: 3"}) {
    SCOPED_TRACE(other);
    check_a_few_steps({{"model", other + sizes + "}"}});
  }
}

// Of four ranks the first ones have prompts alone; documents of three tokens, of which a rank has none.
TEST_F(Tensors, RanksWithoutLabelsAndWithoutTokensGoWithTheOthers) {
  std::string prompts, few;
  for (int i = 0; i < 30; ++i) {
    prompts += fmt::format("{{\"prompt\": \"a prompt of many letters, number {0}: \", \"completion\": \"{0}\"}}\n", i);
    few += fmt::format("{{\"text\": \"{}\"}}\n", i % 10 == 0 ? "a" : std::to_string(10 + i));
  }
  for (const auto& data : {folder_.write("prompts.jsonl", prompts), folder_.write("few.jsonl", few)}) {
    SCOPED_TRACE(data.string());
    check_a_few_steps({{"data.train", data.string()}, {"trainer.batch_size", "1"}, {"model", test::kRouted}});
  }
}

TEST_F(Tensors, TheSameRanksGiveTheSameBits) {
  const Recipe all =
      with(recipe({{"trainer.precision", "bf16"}, {"trainer.steps", "5"}, {"model", test::kRouted}}), 2, -1);
  const test::RanksRun one = run(4, all), other = run(4, all);
  EXPECT_EQ(one.losses, other.losses);
  expect_same_weights(one.weights[0], other.weights[0]);
}

}  // namespace
}  // namespace hone
