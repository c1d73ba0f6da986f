// Steps that learn from answers of earlier ones where a prompt's own are all worth the same.
#include <numeric>

#include "harness/errors.h"
#include "train/complete.h"
#include "train/half_judged.h"
#include "train/hooks_for_tests.h"

namespace hone {
namespace {

class Replaying : public test::HalfJudged {
 protected:
  std::vector<nlohmann::json> told(const std::string& run) {
    std::vector<nlohmann::json> all;
    std::istringstream text(test::read_text(in(run) / "completions.jsonl"));
    for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(Replaying, AnswersThatDifferedAreLearntAgain) {
  run(1, "none", asked(""));
  run(1, "some", asked("replay_buffer_size: 4"));
  EXPECT_GT(sum(values("none", "frac_reward_zero_std")), 2);
  EXPECT_TRUE(values("none", "replay_buffer_size").empty());
  EXPECT_GT(sum(values("some", "replay_buffer_replacements")), 8);
  // The first step's answers are the same, and what is told of their worth, though kept ones take the place of some.
  EXPECT_GT(values("some", "replay_buffer_replacements").front(), 0);
  for (const char* metric : {"reward", "reward_std", "frac_reward_zero_std", "rewards/format/mean",
                             "completions/mean_length", "completions/clipped_ratio"})
    EXPECT_NEAR(values("some", metric).at(0), values("none", metric).at(0), 1e-12) << metric;
  for (const double size : values("some", "replay_buffer_size")) EXPECT_LE(size, 4);
  EXPECT_EQ(values("some", "replay_buffer_size").back(), 4);
  // What is told of an answer that is learnt again is what was told of it when it was given.
  std::map<std::string, nlohmann::json> given;
  std::map<std::string, std::set<std::int64_t>> steps;
  double replayed = 0;
  for (const nlohmann::json& line : told("some")) {
    const std::string key = line["record"].get<std::string>() + line["prompt"].get<std::string>() +
                            line["completion"].get<std::string>() + line["reward"].dump();
    if (!given.contains(key)) given[key] = line;
    EXPECT_EQ(given[key]["advantage"], line["advantage"]) << line;
    steps[key].insert(line["step"].get<std::int64_t>());
    replayed += line["replayed"].get<double>();
  }
  EXPECT_EQ(replayed, sum(values("some", "replay_buffer_replacements")) * 2);
  EXPECT_TRUE(std::ranges::any_of(steps, [](const auto& one) { return one.second.size() > 1; }));
}

TEST_F(Replaying, WhereNothingEverDifferedTheStepStaysAsItIs) {
  run(1, "alike",
      asked("replay_buffer_size: 4",
            {{"objective.rewards", "[{type: format, pattern: 'never so'}]"}, {"trainer.steps", "2"}}));
  EXPECT_EQ(values("alike", "replay_buffer_size"), (std::vector<double>{0, 0}));
  EXPECT_EQ(values("alike", "frac_reward_zero_std"), (std::vector<double>{1, 1}));
}

TEST_F(Replaying, GoesOnToTheSameBitsAndTheSameAnswers) {
  test::register_test_callbacks();
  const auto at = [&](const std::string& name, const std::string& callbacks) {
    train(test::small_recipe(folder_,
                             with(asked("replay_buffer_size: 6, num_iterations: 2",
                                        {{"callbacks", "[" + callbacks + "]"}, {"run.folder", in(name).string()}}))),
          test::quiet_options());
    return in(name);
  };
  const auto whole = at("whole", "");
  at("parts", "{type: raise_at, step: 3}");
  at("parts", "{type: raise_at, step: 5}");
  const auto parts = at("parts", "");
  test::expect_equal_runs(whole, parts, 8);
  EXPECT_EQ(test::read_text(whole / "completions.jsonl"), test::read_text(parts / "completions.jsonl"));
  EXPECT_GT(sum(values("whole", "replay_buffer_replacements")), 4);
}

TEST_F(Replaying, RanksHaveOneBuffer) {
  run(1, "one", asked("replay_buffer_size: 4"));
  run(2, "two", asked("replay_buffer_size: 4"));
  EXPECT_EQ(values("one", "replay_buffer_size"), values("two", "replay_buffer_size"));
  EXPECT_EQ(values("one", "replay_buffer_replacements").front(), values("two", "replay_buffer_replacements").front());
  EXPECT_EQ(values("one", "frac_reward_zero_std").front(), values("two", "frac_reward_zero_std").front());
}

TEST_F(Replaying, IsRefusedWithAnEnvironment) {
  EXPECT_HONE_ERROR(run(1, "turns", asked("replay_buffer_size: 1, environment: {command: cat}")), config,
                    "replay_buffer_size: not with environment");
}

}  // namespace
}  // namespace hone
