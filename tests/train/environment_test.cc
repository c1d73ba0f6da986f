// Runs that learn from answers of several turns.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "train/complete.h"
#include "train/hooks_for_tests.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

// Says something to each first turn, and judges the second: 1 without small letters.
constexpr const char* kTwice = R"sh(while read -r line; do
  case "$line" in
    *'"turn":1,'*'"last":false'*) echo '{"text": "? "}' ;;
    *) said=${line#*\"completion\":\"}; said=${said%%\",\"tool_calls*}
       case "$said" in *[a-z]*) echo '{"done": true, "reward": 0}' ;; *) echo '{"done": true, "reward": 1}' ;; esac ;;
  esac
done)sh";

class EnvironmentRuns : public test::Together {
 protected:
  test::Overrides spoken(const std::string& environment, const test::Overrides& more = {},
                         const std::string& objective = "") {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += fmt::format("{{\"prompt\": \"{}+{}=\"}}\n", i % 10, i % 7);
    const bool rewards = environment.find("reward") != std::string::npos;
    const std::string data = folder_.write("asked.jsonl", lines).string(),
                      program = folder_.write("environment.sh", environment).string();
    test::Overrides all{{"data.train", data},
                        {"data.max_length", "12"},
                        {"objective",
                         "{type: grpo, rewards: [{type: format, pattern: '[^a-z]*'}" +
                             std::string(rewards ? ", {type: environment}" : "") +
                             "], num_generations: 4, "
                         "max_completion_length: 16, stop: [' ', '.', '!', '0', '1', '2', '3', '4', '5', '6', '7', "
                         "'8', '9']" +
                             (environment.empty() ? "" : ", environment: {command: 'sh " + program + "'}") +
                             (objective.empty() ? "" : ", " + objective) + "}"},
                        {"trainer.batch_size", "4"},
                        {"trainer.accumulate", "2"},
                        {"trainer.eval_every", "4"},
                        {"trainer.save.every", "3"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(EnvironmentRuns, OneThatIsDoneAtOnceChangesNothing) {
  run(1, "none", spoken(""));
  run(1, "done", spoken("while read -r line; do echo '{\"done\": true}'; done"));
  const std::string weights = test::step_folder(8) + "/model.safetensors";
  EXPECT_TRUE(test::read_text(in("none") / weights) == test::read_text(in("done") / weights));
  for (const char* metric : {"loss", "reward", "completions/mean_length", "completions/clipped_ratio", "eval_reward"})
    EXPECT_EQ(values(in("none"), metric), values(in("done"), metric)) << metric;
  EXPECT_TRUE(values(in("none"), "environment/turns").empty());
  EXPECT_EQ(values(in("done"), "environment/turns"), std::vector<double>(8, 1));
}

TEST_F(EnvironmentRuns, GoOnToTheSameBits) {
  test::register_test_callbacks();
  const auto at = [&](const char* name, const std::string& callbacks) {
    const std::filesystem::path folder = in(name);
    train(test::small_recipe(folder_, with(spoken(kTwice,
                                                  {{"trainer.precision", "fp32"},
                                                   {"callbacks", "[" + callbacks + "]"},
                                                   {"run.folder", folder.string()}},
                                                  "num_iterations: 2, num_minibatches: 2, beta: 0.05"))),
          test::quiet_options());
    return folder;
  };
  const auto whole = at("whole", "");
  at("parts", "{type: raise_at, step: 3}");
  at("parts", "{type: raise_at, step: 5}");
  test::expect_equal_runs(whole, at("parts", ""), 8);
  const auto turns = values(whole, "environment/turns");
  EXPECT_GT(turns[0], 1.2);
}

TEST_F(EnvironmentRuns, TwoRanksGiveTheAnswersOfOne) {
  const test::Overrides options = spoken(kTwice, {{"trainer.precision", "fp64"}}, "num_iterations: 2");
  run(1, "one", options);
  run(2, "two", options);
  for (const char* metric : {"reward", "reward_std", "completions/mean_length", "loss", "grad_norm",
                             "environment/turns", "eval_reward", "eval_environment/turns"}) {
    const auto a = values(in("one"), metric), b = values(in("two"), metric);
    ASSERT_EQ(a.size(), b.size()) << metric;
    ASSERT_FALSE(a.empty()) << metric;
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << metric << i;
  }
}

TEST_F(EnvironmentRuns, LearnWhatTheEnvironmentRewards) {
  for (const std::string type : {"grpo", "rloo"}) {
    SCOPED_TRACE(type);
    run(1, type,
        spoken(kTwice, {{"objective.type", type},
                        {"objective.rewards", "[{type: environment}]"},
                        {"trainer.steps", "25"},
                        {"trainer.batch_size", "8"},
                        {"trainer.eval_every", "25"},
                        {"trainer.eval_at_start", "true"}}));
    const auto held_out = values(in(type), "eval_reward");
    ASSERT_EQ(held_out.size(), 2u);
    EXPECT_GT(held_out[1], held_out[0] + 0.12);
    EXPECT_EQ(values(in(type), "eval_rewards/environment/mean"), held_out);
  }
}

TEST_F(EnvironmentRuns, CountAnswersThatItGivesNoReward) {
  const std::string half = R"sh(while read -r line; do
  n=$((${n:-0} + 1))
  if [ $((n % 4)) = 0 ]; then echo '{"done": true}'; else echo '{"done": true, "reward": 1}'; fi
done)sh";
  run(1, "half", spoken(half, {{"trainer.steps", "4"}}));
  EXPECT_EQ(values(in("half"), "rewards/environment/missing"), std::vector<double>(4, 0.25));
  EXPECT_EQ(values(in("half"), "eval_rewards/environment/missing").size(), 1u);
  EXPECT_THAT(fails(1, spoken(half, {{"objective.rewards", "[{type: format}]"}}), ErrorKind::data),
              ::testing::HasSubstr("line 1 of what it wrote: a \"reward\" that no reward counts"));
}

TEST_F(EnvironmentRuns, WorkBelowAnAdapterAndWithEachLoss) {
  run(1, "base", spoken("", {{"trainer.steps", "2"}, {"trainer.save.every", "0"}}));
  for (const std::string loss : {"grpo", "dr_grpo", "sapo", "luspo", "vespo"}) {
    const std::string name = "lora_" + loss;
    run(1, name,
        spoken(kTwice,
               {{"model", "{path: " + in("base").string() + "}"},
                {"tokenizer", ""},
                {"adapter.type", "lora"},
                {"adapter.rank", "4"},
                {"trainer.steps", "2"},
                {"optimizer.learning_rate", "0.01"}},
               "beta: 0.1, num_iterations: 2, loss_type: " + loss));
    EXPECT_EQ(values(in(name), "loss").size(), 2u) << loss;
    EXPECT_GT(values(in(name), "environment/turns")[0], 1.2) << loss;
  }
}

// It ends in the middle of a step, once, and whoever takes its place hears all of the step again.
TEST_F(EnvironmentRuns, GoOnWhereAProgramIsStartedAnew) {
  run(1, "straight", spoken(kTwice));
  const std::string died = (folder_ / "died").string(), twice(kTwice);
  const auto dying = [&](const std::string& otherwise) {
    return "n=0; " + otherwise + twice.substr(0, twice.find('\n')) + "\n n=$((n+1)); [ $n -lt 20 ] || [ -e " + died +
           " ] || { : >" + died + "; exit 5; }" + twice.substr(twice.find('\n'));
  };
  test::Overrides anew = spoken(dying(""), {}, "log_completions: false");
  anew.emplace_back("objective.environment.retries", "2");
  run(1, "anew", anew);
  EXPECT_TRUE(std::filesystem::exists(died));
  const std::string weights = test::step_folder(8) + "/model.safetensors";
  EXPECT_TRUE(test::read_text(in("straight") / weights) == test::read_text(in("anew") / weights));
  std::filesystem::remove(died);
  anew = spoken("[ -e " + died + " ] && while read -r line; do echo '{\"text\": \"! \"}'; done; " + dying(""));
  anew.emplace_back("objective.environment.retries", "2");
  EXPECT_THAT(fails(1, anew, ErrorKind::data),
              ::testing::HasSubstr(R"(asked anew, it answers otherwise than before; got "{"text": "! "}", expected)"));
}

TEST_F(EnvironmentRuns, EndWithWhatIsWrongWithTheProgram) {
  EXPECT_THAT(fails(1, spoken("read -r line; exit 7"), ErrorKind::data),
              ::testing::HasSubstr("exit code 7 after 0 of 16 lines"));
  const auto refused = [&](const test::Overrides& more, const std::string& part) {
    EXPECT_HONE_ERROR(run(1, "refused", spoken("", more)), config, part);
  };
  refused({{"objective.rewards", "[{type: environment}]"}},
          "objective grpo: reward environment: got no environment, expected one");
  refused({{"objective.environment.max_turns", "3"}}, "objective.environment.max_turns: only with a command");
  refused({{"objective.environment.retries", "3"}}, "objective.environment.retries: only with a command");
  refused({{"objective.environment.command", "' '"}}, "objective.environment.command: is blank");
}

}  // namespace
}  // namespace hone
