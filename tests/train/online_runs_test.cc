// Runs that learn from pairs of their own answers, and those with a value model: what must hold whatever is drawn.
#include <numeric>

#include "harness/errors.h"
#include "hone/hub.h"
#include "train/complete.h"
#include "train/hooks_for_tests.h"
#include "train/inputs.h"
#include "train/meta_run.h"
#include "train/together.h"

namespace hone {
namespace {

using test::values;

constexpr const char* kFewLetters = "rewards: [{type: format, pattern: '[^a-z]*'}], max_completion_length: 6";
constexpr const char* kPpo = "num_ppo_epochs: 2, num_mini_batches: 2, missing_eos_penalty: 0.5";
// Of two answers the shorter one is the better one.
constexpr const char* kShorter = R"awk({
  line = $0
  text = substr(line, index(line, "\"completions\":[\"") + 16)
  first = substr(text, 1, index(text, "\",\"") - 1)
  text = substr(text, length(first) + 4)
  print length(first) < index(text, "\"],\"complete\":") - 1 ? 1 : 0
})awk";

class OnlineRuns : public test::Together {
 protected:
  static std::string few(const std::string& type, const std::string& more = "") {
    return "type: " + type + ", " + kFewLetters + (more.empty() ? "" : ", " + more);
  }
  std::string judged() {
    return "type: online_dpo, max_completion_length: 12, stop: [a, e, i, o, u, r, s, t, n, l, '1', '2', '3', '4'], "
           "judge: "
           "{command: awk -f " +
           folder_.write("shorter.awk", kShorter).string() + "}";
  }
  std::vector<std::string> kinds() {
    return {few("online_dpo", "beta: [0.1, 0.4]"), judged(), few("xpo", "alpha: [0.01, 0.1]"),
            few("nash_md", "mixture_coef: [0.3, 0.6]"), few("ppo", kPpo)};
  }
  static void expect_equal_value_models(const std::filesystem::path& a, const std::filesystem::path& b,
                                        std::int64_t step) {
    const auto one = test::read_tensors(a / test::step_folder(step) / "value_model" / "model.safetensors"),
               other = test::read_tensors(b / test::step_folder(step) / "value_model" / "model.safetensors");
    ASSERT_FALSE(one.empty());
    for (const auto& [name, value] : one) EXPECT_TRUE(at::equal(value, other.at(name))) << name;
  }
  std::filesystem::path base_model() {
    if (!std::filesystem::exists(in("base")))
      run(1, "base", asking(few("online_dpo"), {{"trainer.steps", "2"}, {"trainer.eval_every", "0"}}));
    return in("base");
  }
};

TEST_F(OnlineRuns, GoOnToTheSameBits) {
  test::register_test_callbacks();
  int number = 0;
  std::vector<test::Overrides> all;
  for (const std::string& kind : kinds()) all.push_back(asking(kind, {{"trainer.precision", "fp32"}}));
  all.push_back(asking(few("ppo", kPpo), {{"trainer.precision", "bf16"}}));
  all.push_back(asking(few("ppo"), {{"trainer.precision", "bf16"}, {"trainer.ema", "{decay: 0.9}"}}));
  for (const test::Overrides& options : all) {
    SCOPED_TRACE(number);
    const auto at = [&](const char* name, const std::string& callbacks) {
      const std::filesystem::path folder = in(name + std::to_string(number));
      test::Overrides own = options;
      own.insert(own.end(), {{"callbacks", "[" + callbacks + "]"}, {"run.folder", folder.string()}});
      train(test::small_recipe(folder_, with(own)), test::quiet_options());
      return folder;
    };
    const auto whole = at("whole", "");
    at("parts", "{type: raise_at, step: 3}");
    at("parts", "{type: raise_at, step: 5}");
    const auto parts = at("parts", "");
    test::expect_equal_runs(whole, parts, 8);
    if (number >= 4) expect_equal_value_models(whole, parts, 8);
    ++number;
  }
}

TEST_F(OnlineRuns, TwoRanksGiveTheAnswersOfOne) {
  int number = 0;
  for (const std::string& kind : kinds()) {
    SCOPED_TRACE(kind);
    const std::string one = "one" + std::to_string(number), two = "two" + std::to_string(number++);
    run(1, one, asking(kind, {{"trainer.precision", "fp64"}}));
    run(2, two, asking(kind, {{"trainer.precision", "fp64"}}));
    std::vector<std::string> metrics{"loss", "grad_norm", "completions/mean_length"};
    if (kind.find("rewards:") != std::string::npos) metrics.insert(metrics.end(), {"reward", "eval_reward"});
    for (const std::string& metric : metrics) {
      const auto a = values(in(one), metric), b = values(in(two), metric);
      ASSERT_EQ(a.size(), b.size()) << metric;
      ASSERT_FALSE(a.empty()) << metric;
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-9) << metric << i;
    }
  }
}

TEST_F(OnlineRuns, RecomputedBlocksGiveTheSameBits) {
  for (const std::string& kind : {few("nash_md"), few("ppo", kPpo)}) {
    const test::Overrides once{{"trainer.precision", "fp32"}, {"trainer.eval_every", "0"}};
    test::Overrides twice = once;
    twice.emplace_back("trainer.checkpoint_blocks", "true");
    const std::string name = kind.substr(6, 3);
    run(1, "kept" + name, asking(kind, once));
    run(1, "again" + name, asking(kind, twice));
    EXPECT_EQ(values(in("kept" + name), "loss"), values(in("again" + name), "loss"));
    EXPECT_EQ(values(in("kept" + name), "grad_norm"), values(in("again" + name), "grad_norm"));
  }
}

TEST_F(OnlineRuns, LearnWhatIsRewarded) {
  const std::map<std::string, std::string> options{{"online_dpo", "beta: 0.05"},
                                                   {"xpo", "beta: 0.05, alpha: 1e-4"},
                                                   {"nash_md", "beta: 0.01"},
                                                   {"ppo", "kl_coef: 0.01, num_ppo_epochs: 2, num_generations: 2"}};
  for (const auto& [type, more] : options) {
    SCOPED_TRACE(type);
    run(1, type,
        asking(few(type, more), {{"trainer.steps", "40"}, {"trainer.batch_size", "12"}, {"trainer.eval_every", "0"}}));
    // Half of xpo's answers are the reference's.
    const auto worth = values(in(type), type == "xpo" ? "objective/model_scores" : "reward");
    ASSERT_EQ(worth.size(), 40u);
    const double first = std::accumulate(worth.begin(), worth.begin() + 4, 0.0) / 4,
                 last = std::accumulate(worth.end() - 4, worth.end(), 0.0) / 4;
    EXPECT_GT(last, first + 0.2);
  }
}

TEST_F(OnlineRuns, AJudgeOfPairsIsLearnt) {
  run(1, "shorter",
      asking(judged() + ", beta: 0.02",
            {{"trainer.steps", "40"}, {"trainer.batch_size", "8"}, {"trainer.eval_every", "0"}}));
  const auto lengths = values(in("shorter"), "completions/mean_length");
  ASSERT_EQ(lengths.size(), 40u);
  EXPECT_LT(std::accumulate(lengths.end() - 8, lengths.end(), 0.0),
            0.8 * std::accumulate(lengths.begin(), lengths.begin() + 8, 0.0));
  EXPECT_TRUE(values(in("shorter"), "reward").empty());
}

TEST_F(OnlineRuns, EachEpochHasItsOwnNumbers) {
  run(1, "epochs",
      asking(few("xpo", "beta: [0.1, 0.4, 0.2], alpha: [0.01, 0.02]"),
            {{"trainer.steps", "14"}, {"trainer.eval_every", "0"}, {"data.eval.held_out", "0"}}));
  const auto beta = values(in("epochs"), "beta"), alpha = values(in("epochs"), "alpha");  // 40 prompts, 8 a step
  ASSERT_EQ(beta.size(), 14u);
  for (std::size_t step = 0; step < 14; ++step) {
    EXPECT_DOUBLE_EQ(beta[step], step < 5 ? 0.1 : step < 10 ? 0.4 : 0.2) << step;
    EXPECT_DOUBLE_EQ(alpha[step], step < 5 ? 0.01 : 0.02) << step;
  }
}

// The adapter is what is trained of the policy, and its base the reference; the value model is trained in full.
TEST_F(OnlineRuns, PpoTrainsAnAdapterBesideItsValueModel) {
  test::register_test_callbacks();
  const test::Overrides lora{{"model", "{path: " + base_model().string() + "}"},
                             {"tokenizer", ""},
                             {"adapter.type", "lora"},
                             {"adapter.rank", "4"},
                             {"trainer.precision", "fp32"},
                             {"optimizer.learning_rate", "0.02"}};
  const auto at = [&](const char* name, const std::string& callbacks) {
    test::Overrides own = asking(few("ppo", kPpo), lora);
    own.insert(own.end(), {{"callbacks", "[" + callbacks + "]"}, {"run.folder", in(name).string()}});
    train(test::small_recipe(folder_, with(own)), test::quiet_options());
    return in(name);
  };
  const auto whole = at("whole", "");
  const auto kl = values(whole, "objective/kl");
  EXPECT_NEAR(kl.front(), 0, 1e-5);
  EXPECT_NE(kl.back(), kl.front());
  at("parts", "{type: raise_at, step: 5}");
  const auto parts = at("parts", "");
  for (const char* name : {"adapter_model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
    EXPECT_TRUE(test::read_text(whole / test::step_folder(8) / name) ==
                test::read_text(parts / test::step_folder(8) / name))
        << name;
  EXPECT_EQ(test::fixed_metrics_of(whole), test::fixed_metrics_of(parts));
  expect_equal_value_models(whole, parts, 8);
  EXPECT_THAT(
      fails(1, asking(few("ppo", "value_model: " + whole.string())), ErrorKind::config),
      ::testing::HasSubstr("objective.value_model: " + whole.string() + ": an adapter, and a model is trained"));
}

// Of one micro-batch that is learnt twice the first ratio is 1, and the other one is known from the mean of both.
TEST_F(OnlineRuns, RatiosVaryAsTheirMeanSays) {
  run(1, "twice", asking(few("ppo", "num_ppo_epochs: 2"), {{"trainer.accumulate", "1"},
                                                          {"trainer.log_every", "1"},
                                                          {"optimizer.learning_rate", "0.05"}}));
  const auto ratios = values(in("twice"), "val/ratio"), variances = values(in("twice"), "val/ratio_var");
  ASSERT_EQ(ratios.size(), 8u);
  ASSERT_EQ(variances.size(), 8u);
  for (std::size_t i = 0; i < ratios.size(); ++i)
    EXPECT_NEAR(variances[i], 2 * std::pow(1 - ratios[i], 2), 1e-9 + 1e-6 * variances[i]) << i;
  EXPECT_GT(*std::max_element(variances.begin(), variances.end()), 1e-6);
  run(1, "once", asking(few("ppo", "num_ppo_epochs: 1"), {{"trainer.accumulate", "1"}, {"trainer.steps", "2"}}));
  EXPECT_TRUE(values(in("once"), "val/ratio_var").empty());
  for (const nlohmann::json& line : test::metrics_of(in("once")))
    for (const auto& [name, value] : line.items()) EXPECT_FALSE(name.find("square") != std::string::npos) << name;
}

// A folder of its own, which is a reward model's; what is trained of it is not the model's.
TEST_F(OnlineRuns, TheValueModelIsSavedBesideTheModel) {
  run(1, "ppo",
      asking(few("ppo", "value_model: " + test::golden("train/reward/model").string()),
            {{"model", "{path: " + test::golden("train/dpo").string() + "}"}, {"trainer.precision", "fp32"}}));
  const std::filesystem::path saved = in("ppo") / test::step_folder(8);
  const auto values = test::read_tensors(saved / "value_model" / "model.safetensors"),
             began = test::read_tensors(test::golden("train/reward/model") / "model.safetensors"),
             model = test::read_tensors(saved / "model.safetensors");
  ASSERT_EQ(values.size(), began.size());
  for (const auto& [name, value] : began) EXPECT_FALSE(at::equal(value, values.at(name))) << name;
  for (const auto& [name, value] : model) EXPECT_FALSE(name.starts_with("value_model")) << name;
  const auto loaded = load_model((saved / "value_model").string(), Precision::fp32);
  EXPECT_NE(loaded->classifier(), nullptr);
  EXPECT_NE(load_model(in("ppo").string(), Precision::fp32)->causal_lm(), nullptr);
}

TEST_F(OnlineRuns, MemoryIsKnownBefore) {
  std::uint64_t without = 0;
  for (const std::string& kind : kinds()) {
    SCOPED_TRACE(kind);
    const Recipe recipe = training::completed_for_preview(test::small_recipe(folder_, asking(kind)));
    const training::MemoryPlan plan = training::plan_memory(recipe, training::load_inputs(recipe, ""));
    EXPECT_EQ(plan.unknown, "");
    EXPECT_GT(plan.backward, 0u);
    EXPECT_GT(plan.other_models, 0u);
    if (kind.find("ppo") == std::string::npos)
      without = plan.optimizer;
    else
      EXPECT_GT(plan.optimizer, without + without / 2);  // the value model has no table of words at its end
  }
}

TEST_F(OnlineRuns, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](const std::string& objective, ErrorKind kind, const std::string& why) {
    try {
      run(1, "refused", asking(objective));
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(why));
    }
  };
  refused("type: online_dpo", ErrorKind::config, "expected one of the two");
  refused(few("online_dpo", "judge: {command: cat}"), ErrorKind::config, "expected one of the two");
  refused("type: xpo, judge: {command: cat}, missing_eos_penalty: 1", ErrorKind::config, "not with a judge");
  refused(few("xpo", "environment: {command: cat}"), ErrorKind::config, "others give one of two");
  refused(few("online_dpo", "loss_type: ipo, beta: [0.1, 0]"), ErrorKind::config, "above 0 with loss_type ipo");
  refused(few("nash_md", "mixture_coef: 1.5"), ErrorKind::config, "expected numbers from 0 to 1");
  refused("type: online_dpo, judge: {command: 'sed s/.*/2/'}, max_completion_length: 6", ErrorKind::data,
          "expected a number from 0 to 1, null or an object with \"first\"");
  refused("type: ppo, max_completion_length: 6", ErrorKind::config, "expected at least one, as in rewards");
  refused(few("ppo", "num_mini_batches: 3"), ErrorKind::config, "trainer.accumulate: got 2, expected a multiple of 3");
  EXPECT_THAT(fails(2, asking(few("ppo"), {{"parallel.fsdp", "-1"}}), ErrorKind::config),
              ::testing::HasSubstr("the model answers with whole weights"));
}

}  // namespace
}  // namespace hone
