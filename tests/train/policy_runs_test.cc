// Runs that learn from their own answers: what must hold whatever is drawn.
#include "harness/errors.h"
#include "train/complete.h"
#include "train/hooks_for_tests.h"
#include "train/inputs.h"
#include "train/meta_run.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

class PolicyRuns : public test::Together {
 protected:
  // Answers without small letters are worth something, and about half of what is drawn at first.
  test::Overrides asked(const test::Overrides& more = {}, const std::string& objective = "") {
    return asking(
        "type: grpo, rewards: [{type: format, pattern: '[^a-z]*'}, {type: accuracy}], num_generations: 4, "
        "max_completion_length: 6" +
            (objective.empty() ? "" : ", " + objective),
        more, /*answered=*/true);
  }
};

TEST_F(PolicyRuns, GoOnToTheSameBits) {
  test::register_test_callbacks();
  for (const std::string objective : {"num_iterations: 2, num_minibatches: 2, beta: 0.05", "scale_rewards: none",
                                      "beta: 0.2, reference_sync_steps: 2, top_entropy_quantile: 0.3",
                                      "use_adaptive_entropy: true, entropy_target: 4.7, entropy_coef_delta: 0.3"}) {
    SCOPED_TRACE(objective);
    const auto at = [&](const char* name, const std::string& callbacks) {
      const std::filesystem::path folder = in(name + std::to_string(objective.size()));
      train(test::small_recipe(folder_, with(asked({{"trainer.precision", "fp32"},
                                                    {"callbacks", "[" + callbacks + "]"},
                                                    {"run.folder", folder.string()}},
                                                   objective))),
            test::quiet_options());
      return folder;
    };
    const auto whole = at("whole", "");
    at("parts", "{type: raise_at, step: 3}");
    at("parts", "{type: raise_at, step: 5}");
    test::expect_equal_runs(whole, at("parts", ""), 8);
  }
}

TEST_F(PolicyRuns, TwoRanksGiveTheAnswersOfOne) {
  for (const std::string objective :
       {"num_iterations: 2, scale_rewards: batch", "top_entropy_quantile: 0.3, beta: 0.1, reference_sync_steps: 3",
        "use_adaptive_entropy: true, entropy_target: 4.7, entropy_coef_delta: 0.3"}) {
    SCOPED_TRACE(objective);
    const test::Overrides options = asked({{"trainer.precision", "fp64"}}, objective);
    const std::string one = "one" + objective.substr(0, 3), two = "two" + objective.substr(0, 3);
    run(1, one, options);
    run(2, two, options);
    for (const char* metric : {"reward", "reward_std", "completions/mean_length", "loss", "grad_norm", "eval_reward"}) {
      const auto a = values(in(one), metric), b = values(in(two), metric);
      ASSERT_EQ(a.size(), b.size()) << metric;
      ASSERT_FALSE(a.empty()) << metric;
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << metric << i;
    }
  }
}

// Each rank has one of the step's two updates, in which its only micro-batch is the first.
TEST_F(PolicyRuns, DropoutGoesByTheUpdatesMicroBatchesHoweverManyRanksShareThem) {
  for (const std::string type : {"grpo", "rloo"}) {
    const test::Overrides options = asked({{"trainer.precision", "fp64"},
                                           {"objective.type", type},
                                           {"model.attention_dropout", "0.3"},
                                           {"optimizer.learning_rate", "0"},
                                           {"optimizer.schedule", "{type: constant}"},
                                           {"trainer.steps", "3"}},
                                          "num_minibatches: 2");
    run(1, "one" + type, options);
    run(2, "two" + type, options);
    const auto a = values(in("one" + type), "grad_norm"), b = values(in("two" + type), "grad_norm");
    ASSERT_EQ(a.size(), 3u);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b.at(i), 1e-9) << type << i;
  }
}

TEST_F(PolicyRuns, MicroBatchesOfAnySizeLearnTheSame) {
  const auto split = [&](const char* name, const char* rows, const char* times) {
    run(1, name,
        asked({{"trainer.batch_size", rows},
               {"trainer.accumulate", times},
               {"trainer.precision", "fp64"},
               {"optimizer.learning_rate", "0"},
               {"optimizer.schedule", "{type: constant}"},
               {"trainer.steps", "1"},
               {"trainer.eval_every", "1"}}));
    return in(name);
  };
  // The draws go by the place in the micro-batch; held-out prompts' by the record.
  const auto eight = split("eight", "8", "1"), one = split("one", "1", "8");
  EXPECT_EQ(values(eight, "eval_reward"), values(one, "eval_reward"));
  EXPECT_EQ(values(eight, "tokens").size(), 2u);
}

TEST_F(PolicyRuns, LearnWhatIsRewarded) {
  for (const std::string type : {"grpo", "rloo"}) {
    SCOPED_TRACE(type);
    run(1, type,
        asked({{"objective.type", type},
               {"trainer.steps", "40"},
               {"trainer.batch_size", "8"},
               {"trainer.eval_every", "40"},
               {"trainer.eval_at_start", "true"}}));
    const auto held_out = values(in(type), "eval_reward");
    ASSERT_EQ(held_out.size(), 2u);
    EXPECT_GT(held_out[1], held_out[0] + 0.2);
  }
}

TEST_F(PolicyRuns, BelowAnAdapterTheReferenceIsTheModel) {
  run(1, "base", asked({{"trainer.steps", "2"}, {"trainer.save.every", "0"}}));
  run(1, "lora",
      asked({{"model", "{path: " + in("base").string() + "}"},
             {"tokenizer", ""},
             {"adapter.type", "lora"},
             {"adapter.rank", "4"},
             {"optimizer.learning_rate", "0.05"}},
            "beta: 0.1"));
  const auto kl = values(in("lora"), "kl");
  ASSERT_EQ(kl.size(), 8u);
  EXPECT_NEAR(kl[0], 0, 1e-6);
  EXPECT_GT(kl[7], 1e-4);
}

// What a step makes at most is counted, with an old and a reference's likelihood.
TEST_F(PolicyRuns, MemoryIsKnownBefore) {
  for (const std::string loss : {"dapo", "grpo", "sapo", "vespo", "luspo", "dr_grpo", "gmpo"}) {
    SCOPED_TRACE(loss);
    const Recipe recipe = training::completed_for_preview(
        test::small_recipe(folder_, asked({}, "beta: 0.1, num_iterations: 2, loss_type: " + loss)));
    const training::MemoryPlan plan = training::plan_memory(recipe, training::load_inputs(recipe, ""));
    EXPECT_EQ(plan.unknown, "");
    EXPECT_GT(plan.backward, 0u);
    EXPECT_GT(plan.other_models, 0u);
    EXPECT_GE(plan.tokens, 4 * 4 * (4 + 6));
  }
}

TEST_F(PolicyRuns, AStepWhoseAnswersAreAllLeftOutIsToldOf) {
  std::string told;
  log::set_sink([&](log::Level, std::string_view line) { told += std::string(line) + "\n"; });
  run(1, "masked",
      asked({{"trainer.steps", "1"},
             {"trainer.eval_every", "0"},
             {"optimizer.schedule", "{type: constant}"},
             {"objective.max_completion_length", "1"}},
            "mask_truncated_completions: true, stop: [never]"));
  log::set_sink({});
  EXPECT_THAT(told, ::testing::HasSubstr("mask_truncated_completions leaves them out: nothing is learnt"));
}

TEST_F(PolicyRuns, SharedOutWeightsAreRefused) {
  const std::string error = fails(2, asked({{"parallel.fsdp", "-1"}}), ErrorKind::config);
  EXPECT_THAT(error, ::testing::HasSubstr("the model answers with whole weights"));
}

// Whoever gives them: beyond it their spread is no number, and nothing would be learnt.
TEST_F(PolicyRuns, RewardsWithoutBoundsAreRefused) {
  const auto with_judge = [&](const std::string& number, const std::string& weights = "[1]") {
    run(1, "judged",
        asked({{"objective", "{type: grpo, num_generations: 4, max_completion_length: 6, rewards: [{type: command, "
                             "command: \"awk '{print (NR % 2 ? 1 : -1) * " +
                                 number + "}'\"}], reward_weights: " + weights + "}"},
               {"trainer.steps", "2"}}));
  };
  EXPECT_HONE_ERROR(with_judge("1e300"), data, "reward command: got 1e+300 for an answer to ");
  EXPECT_HONE_ERROR(with_judge("-1.1e9"), data, ", expected a number from -1e9 to 1e9");
  EXPECT_HONE_ERROR(with_judge("1", "[1e300]"), config, "reward_weights: expected numbers from -1e9 to 1e9");
  with_judge("1e9");
  const auto spreads = values(in("judged"), "rewards/command/std");
  ASSERT_EQ(spreads.size(), 2u);
  EXPECT_GT(spreads[0], 9e8);
}

TEST_F(PolicyRuns, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](const test::Overrides& more, const std::string& objective, ErrorKind kind,
                           const std::string& why) {
    try {
      run(1, "refused", asked(more, objective));
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(why));
    }
  };
  refused({}, "loss_type: cispo", ErrorKind::config, "what loss_type cispo clips weights at");
  refused({}, "loss_type: gmpo, delta: 2", ErrorKind::config, "not with loss_type gmpo");
  refused({}, "loss_type: gmpo, importance_sampling_level: sequence", ErrorKind::config, "not with loss_type gmpo");
  refused({}, "num_minibatches: 3", ErrorKind::config, "trainer.accumulate: got 2, expected a multiple of 3");
  refused({{"data.packing", "best_fit"}}, "", ErrorKind::config, "a row is one prompt");
  refused({{"data.overlong", "keep_start"}}, "", ErrorKind::config, "asks something else");
  refused({{"trainer.tokens", "1000"}, {"trainer.steps", "null"}}, "", ErrorKind::config, "nobody knows how long");
  refused({{"trainer.batch_size", "1"},
           {"data.eval.held_out", "0"},
           {"trainer.eval_every", "0"},
           {"data.train", folder_.write("none.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n").string()}},
          "", ErrorKind::data, "have no answer, with which reward accuracy compares");
}

}  // namespace
}  // namespace hone
