// completions.jsonl: what is written down of a step's answers.
#include "harness/errors.h"
#include "train/complete.h"
#include "train/hooks_for_tests.h"
#include "train/together.h"

namespace hone {
namespace {

class Completions : public test::Together {
 protected:
  test::Overrides asked(const std::string& objective, const test::Overrides& more = {}) {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += fmt::format("{{\"prompt\": \"{}+{}=\", \"answer\": {}}}\n", i % 10, i % 7, i % 10 + i % 7);
    test::Overrides all{{"data.train", folder_.write("asked.jsonl", lines).string()},
                        {"data.max_length", "12"},
                        {"objective", "{rewards: [{type: format, pattern: '[^a-z]*'}, {type: accuracy}], "
                                      "max_completion_length: 6, log_completions: true, " + objective + "}"},
                        {"trainer.batch_size", "4"},
                        {"trainer.accumulate", "2"},
                        {"trainer.save.every", "3"},
                        {"trainer.log_every", "1"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<nlohmann::json> lines(const std::string& run) {
    std::vector<nlohmann::json> all;
    std::istringstream text(test::read_text(in(run) / "completions.jsonl"));
    for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(Completions, SayWhatWasAskedAnsweredAndLearnt) {
  run(1, "a", asked("type: grpo, num_generations: 4"));
  const auto all = lines("a");
  ASSERT_EQ(all.size(), 8u * 8 * 4);  // steps, prompts, answers
  std::map<std::int64_t, double> rewards;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const nlohmann::json& line = all[i];
    EXPECT_EQ(line["step"], i / 32 + 1);
    EXPECT_EQ(line["prompt"], all[i - i % 4]["prompt"]);
    EXPECT_EQ(line["reference"], all[i - i % 4]["reference"]);
    EXPECT_TRUE(line["record"].get<std::string>().starts_with((folder_.path() / "asked.jsonl").string() + ":"));
    const bool has_small = std::ranges::any_of(line["completion"].get<std::string>(),
                                               [](char c) { return c >= 'a' && c <= 'z'; });
    EXPECT_EQ(line["rewards"]["format"], has_small ? 0 : 1) << line;
    EXPECT_EQ(line["reward"], line["rewards"]["format"].get<double>() + line["rewards"]["accuracy"].get<double>());
    EXPECT_LE(line["tokens"], 6);
    EXPECT_EQ(line["complete"].get<bool>(), line["tokens"] < 6 || line["complete"].get<bool>());
    rewards[line["step"]] += line["reward"].get<double>() / 32;
    if (i % 4 != 3) continue;
    double sum = 0;
    for (std::size_t k = i - 3; k <= i; ++k) sum += all[k]["advantage"].get<double>();
    EXPECT_NEAR(sum, 0, 1e-9);
  }
  for (const nlohmann::json& line : test::metrics_of(in("a"))) {
    if (!line.contains("reward")) continue;
    EXPECT_NEAR(line["reward"], rewards.at(line["step"]), 1e-9);
  }
}

TEST_F(Completions, AreOfTheStepsThatAreLoggedAndCutWhereARunGoesOn) {
  test::register_test_callbacks();
  const auto at = [&](const char* name, const std::string& callbacks) {
    train(test::small_recipe(folder_, with(asked("type: rloo, num_generations: 2",
                                                 {{"trainer.log_every", "2"},
                                                  {"callbacks", "[" + callbacks + "]"},
                                                  {"run.folder", in(name).string()}}))),
          test::quiet_options());
  };
  at("whole", "");
  at("parts", "{type: raise_at, step: 5}");
  EXPECT_EQ(lines("parts").back()["step"], 4);
  // As of a process that has gone on and was killed.
  folder_.write("parts/completions.jsonl", test::read_text(in("parts") / "completions.jsonl") +
                                               "{\"step\": 6, \"completion\": \"lost\"}\n{\"step\": 6, \"comp");
  at("parts", "");
  EXPECT_EQ(lines("whole").size(), 4u * 8 * 2);
  EXPECT_EQ(test::read_text(in("whole") / "completions.jsonl"), test::read_text(in("parts") / "completions.jsonl"));
  run(2, "ranks", asked("type: rloo, num_generations: 2", {{"trainer.log_every", "2"}}));
  auto one = lines("whole"), two = lines("ranks");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i]["advantage"], two[i]["advantage"], 1e-9);
    one[i].erase("advantage"), two[i].erase("advantage");
    EXPECT_EQ(one[i], two[i]);
  }
}

TEST_F(Completions, HaveWhatTheirObjectiveLearnsBy) {
  run(1, "online", asked("type: online_dpo", {{"trainer.steps", "2"}}));
  const auto pairs = lines("online");
  ASSERT_EQ(pairs.size(), 2u * 8 * 2);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const double apart = pairs[i]["reward"].get<double>() - pairs[i + 1]["reward"].get<double>();
    EXPECT_NEAR(pairs[i]["preference"], 1 / (1 + std::exp(-apart)), 1e-12);
    EXPECT_NEAR(pairs[i + 1]["preference"], 1 / (1 + std::exp(apart)), 1e-12);
  }
  run(1, "ppo", asked("type: ppo", {{"trainer.steps", "2"}}));
  for (const nlohmann::json& line : lines("ppo")) EXPECT_TRUE(line["kl"].is_number()) << line;
  run(1, "none", asked("type: grpo, num_generations: 2", {{"objective.log_completions", "false"},
                                                          {"trainer.steps", "2"}}));
  EXPECT_FALSE(std::filesystem::exists(in("none") / "completions.jsonl"));
  EXPECT_HONE_ERROR(test::small_recipe(folder_, asked("type: grpo, num_completions_to_print: 2",
                                                      {{"objective.log_completions", "false"}})),
                    config, "num_completions_to_print: only with log_completions: true");
}

}  // namespace
}  // namespace hone
