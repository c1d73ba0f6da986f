// Whole runs of ranks that compute micro-batches together: evaluations, checkpoints that go on with another number of
// them, and what is refused before any work.
#include <gmock/gmock.h>

#include "hone/text.h"
#include "text/tokenizer/roles.h"
#include "train/together.h"

namespace hone {
namespace {

class ContextRuns : public test::Together {
 protected:
  std::string masked_tokenizer() {  // bytes and a token that hides
    const auto made =
        text::with_roles(*add_tokens(*load_tokenizer("bytes"), {{.content = "[MASK]"}}), {{"mask_token", "[MASK]"}});
    for (const auto& [name, content] : made->files) folder_.write("tokenizer/" + name, content);
    return in("tokenizer").string();
  }
};

TEST_F(ContextRuns, ARunIsWhatOneProcessMakes) {
  const test::Overrides more{{"callbacks", "[{type: intermediates, match: 'layers\\.1\\.(output|attention)'}]"},
                             {"objective", "{type: causal_lm, metrics: [accuracy, perplexity, weight_sum]}"}};
  run(1, "one", more);
  for (const char* fsdp : {"1", "-1"}) {
    SCOPED_TRACE(fsdp);
    test::Overrides together = more;
    together.insert(together.end(), {{"parallel.context", "2"}, {"parallel.fsdp", fsdp}});
    for (const int ranks : {2, 4}) {
      const std::string name = fmt::format("{}-{}", ranks, fsdp);
      run(ranks, name, together);
      expect_close(in("one"), in(name), 1e-6);  // intermediates are added up in fp32
      expect_close_weights(in("one"), in(name), 8, 1e-10);
    }
  }
}

// Saved by two times two, and gone on with by others, alone and together.
TEST_F(ContextRuns, GoesOnWithAnyNumberOfRanksAndAnyContext) {
  const test::Overrides all{{"trainer.batch_size", "2"}, {"trainer.accumulate", "6"}, {"trainer.save.every", "3"}};
  const auto with = [&](int context, int fsdp) {
    test::Overrides made = all;
    made.insert(made.end(), {{"parallel.context", std::to_string(context)}, {"parallel.fsdp", std::to_string(fsdp)}});
    return made;
  };
  run(1, "straight", all);
  run(4, "broken", with(2, -1));
  TrainOptions options;
  options.resume = "3";
  for (const auto& [ranks, context, fsdp] :
       {std::tuple{1, 1, 1}, {2, 2, 1}, {2, 1, -1}, {4, 4, 1}, {4, -1, -1}, {4, 2, -1}}) {
    SCOPED_TRACE(fmt::format("{} ranks, context {}, fsdp {}", ranks, context, fsdp));
    EXPECT_EQ(run(ranks, "broken", with(context, fsdp), options).resumed_from, 3);
    expect_close(in("straight"), in("broken"), 1e-11);
    expect_close_weights(in("straight"), in("broken"), 8, 1e-10);
  }
}

TEST_F(ContextRuns, ABrokenRunOfTheSameRanksHasTheSameBits) {
  const test::Overrides bf16{{"trainer.precision", "bf16"}, {"trainer.save.every", "3"}, {"parallel.context", "2"}};
  run(4, "straight", bf16);
  run(4, "broken", bf16);
  TrainOptions options;
  options.resume = "6";
  run(4, "broken", bf16, options);
  test::expect_equal_runs(in("straight"), in("broken"), 8);
}

TEST_F(ContextRuns, TextsThatAreSeenWholeLearnTheSame) {
  const std::string sizes = ", hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
                            "max_position_embeddings: 80";
  for (const std::string& model :
       {"{type: bert, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1" + sizes + "}",
        "{type: modernbert, embedding_dropout: 0.1, attention_dropout: 0.1, mlp_dropout: 0.1, local_attention: 8" +
            sizes + "}"}) {
    SCOPED_TRACE(model);
    test::Overrides masked{{"model", model},
                           {"tokenizer", masked_tokenizer()},
                           {"objective", "{type: masked_lm, mlm_probability: 0.3}"}};
    const std::string name = model.substr(7, 5);
    run(1, name + "-one", masked);
    masked.insert(masked.end(), {{"parallel.context", "2"}, {"parallel.fsdp", "-1"}});
    run(4, name + "-four", masked);
    expect_close(in(name + "-one"), in(name + "-four"), 1e-10);
  }
}

TEST_F(ContextRuns, CurvatureIsThatOfOneProcess) {
  const test::Overrides sophia{{"optimizer", "{type: sophia, learning_rate: 1e-3, update_period: 2}"}};
  run(1, "one", sophia);
  test::Overrides together = sophia;
  together.emplace_back("parallel.context", "2");
  run(2, "two", together);
  expect_close(in("one"), in("two"), 1e-10);
}

TEST_F(ContextRuns, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](int ranks, test::Overrides more, const std::string& context = "2") {
    more.emplace_back("parallel.context", context);
    return fails(ranks, more, ErrorKind::config);
  };
  EXPECT_THAT(refused(2, {}, "3"),
              testing::HasSubstr("parallel.context: got 3, expected a number that divides the 2 ranks: 1, 2"));
  EXPECT_THAT(refused(4, {{"trainer.accumulate", "3"}}),
              testing::HasSubstr("trainer.accumulate: a step's 3 micro-batches cannot be shared evenly among 2 groups "
                                 "of 2 ranks; numbers of groups that fit: 1, 3"));
  EXPECT_THAT(refused(2, {{"objective", "{type: dpo}"}}),
              testing::HasSubstr("objective dpo: not with parallel.context"));
  EXPECT_THAT(refused(2, {{"model.hidden_size", "36"}, {"model.num_attention_heads", "9"},
                          {"model.num_key_value_heads", "3"}}),
              testing::HasSubstr("parallel.context: got 2 ranks, among which 9 and 3 heads or channels cannot be "
                                 "shared evenly; numbers that fit: 1, 3, 9"));
  EXPECT_THAT(refused(2, {{"model", "{type: deberta-v2, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, "
                                    "num_attention_heads: 2, max_position_embeddings: 80}"},
                          {"tokenizer", masked_tokenizer()},
                          {"objective", "masked_lm"}}),
              testing::HasSubstr("parallel.context: ranks cannot compute a batch together by a model of type deberta"));
  run(1, "experts", {{"model", test::routed_model()}, {"trainer.steps", "3"}});
  const test::Overrides adapted{{"model", in("experts").string()},
                                {"adapter", "{type: lora, rank: 2, dropout: 0.1, targets: ['.*experts.*', q_proj]}"}};
  EXPECT_THAT(refused(2, adapted), testing::HasSubstr("adapter.dropout: got 0.1, expected 0 with parallel.context for "
                                                      "model.layers.1.mlp.experts.0."));
}

TEST_F(ContextRuns, GroupsOfMemoriesThatCannotBeSharedAreRefused) {
  const auto refused = [&](const std::string& model) {
    return fails(2, {{"model", model}, {"parallel.context", "2"}}, ErrorKind::config);
  };
  EXPECT_THAT(refused("{type: mamba2, hidden_size: 24, num_heads: 6, head_dim: 8, state_size: 8, n_groups: 3, "
                      "num_hidden_layers: 1, expand: 2}"),
              testing::HasSubstr("parallel.context: got 2 ranks, among which 3 heads or channels cannot be shared "
                                 "evenly; numbers that fit: 1, 3, 6"));
  EXPECT_THAT(refused("{type: falcon_h1, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 1, "
                      "num_attention_heads: 6, num_key_value_heads: 2, mamba_d_ssm: 48, mamba_n_heads: 6, "
                      "mamba_d_head: 8, mamba_d_state: 6, mamba_n_groups: 3, max_position_embeddings: 256}"),
              testing::HasSubstr("among which 3 heads or channels cannot be shared evenly; numbers that fit: 1, 6"));
  EXPECT_THAT(refused("{type: qwen3_next, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 2, "
                      "num_attention_heads: 6, num_key_value_heads: 2, head_dim: 16, num_experts: 4, "
                      "num_experts_per_tok: 2, moe_intermediate_size: 8, shared_expert_intermediate_size: 8, "
                      "layer_types: [linear_attention, full_attention], linear_key_head_dim: 6, "
                      "linear_value_head_dim: 6, linear_num_key_heads: 3, linear_num_value_heads: 6}"),
              testing::HasSubstr("among which 3 heads or channels cannot be shared evenly; numbers that fit: 1, 6"));
}

TEST_F(ContextRuns, DropoutInAHeadForMaskedTokensIsRefused) {
  test::Overrides masked{{"model", "{type: bert, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, "
                                   "num_attention_heads: 2, max_position_embeddings: 80}"},
                         {"tokenizer", masked_tokenizer()},
                         {"objective", "{type: masked_lm, mlm_probability: 0.3}"},
                         {"trainer.steps", "2"}};
  run(1, "bert", masked);
  masked[0].second = in("bert").string();
  masked.insert(masked.end(), {{"adapter", "{type: lora, rank: 2, dropout: 0.1, targets: all-linear}"},
                               {"parallel.context", "2"}});
  EXPECT_THAT(fails(2, masked, ErrorKind::config),
              testing::HasSubstr("adapter.dropout: got 0.1, expected 0 with parallel.context for "
                                 "cls.predictions.transform.dense, which sees some of the tokens alone"));
  masked.emplace_back("adapter.exclude", "[cls.predictions.transform.dense]");
  EXPECT_EQ(run(2, "adapted", masked).step, 2);
}

// Nothing of the folder that is there is moved away for a run that cannot be.
TEST_F(ContextRuns, IsRefusedBeforeAnOldRunIsMovedAway) {
  run(1, "old", {{"trainer.steps", "2"}});
  test::Overrides heads{{"model.hidden_size", "36"},
                        {"model.num_attention_heads", "9"},
                        {"model.num_key_value_heads", "3"},
                        {"parallel.context", "2"}};
  TrainOptions fresh;
  fresh.fresh = true;
  EXPECT_THROW(run(2, "old", heads, fresh), Error);
  EXPECT_TRUE(std::filesystem::exists(in("old") / test::step_folder(2)));
}

}  // namespace
}  // namespace hone
