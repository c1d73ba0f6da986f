// Objectives that learn from pairs of answers, and by a value model, against TRL's OnlineDPOTrainer, XPOTrainer,
// NashMDTrainer and PPOTrainer, with answers and scores that are given (tools/golden/golden_online_dpo.py,
// golden_xpo_nash.py, golden_ppo.py).
#include <gtest/gtest.h>

#include <cmath>

#include "hone/registry.h"
#include "hone/trainer.h"
#include "objectives/nash_md.h"
#include "objectives/ppo.h"
#include "objectives/xpo.h"
#include "train/given_answers.h"
#include "train/support.h"

namespace hone {
namespace {

const nlohmann::json& file_of(const std::string& name) {
  static std::map<std::string, nlohmann::json> read;
  if (!read.contains(name)) read[name] = test::read_json(test::golden("train/" + name + ".json"));
  return read.at(name);
}
bool answers_are_full = false;

// Answers of the golden files instead of the models'.
template <class Kind>
class Given final : public Kind {
 public:
  using Kind::Kind;

 protected:
  std::vector<objectives::GivenAnswer> answers_to(const std::vector<objectives::Asked>& asked, std::int64_t each,
                                                  const objectives::SeedOfAnswer&, const StepContext&,
                                                  objectives::Environment&) const override {
    return test::given_answers(asked, each, [](std::int64_t record, std::int64_t which) -> const nlohmann::json& {
      return answers_are_full ? file_of("online/ppo")["full"][record]
                              : file_of("grpo/runs")["completions"][record][which];
    });
  }
};

std::int64_t answers_to_each = 2;

class Scores final : public Reward {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Scores(const Config&) {}
  std::vector<std::optional<double>> score(const std::vector<Answer>& answers, const RewardContext&) const override {
    std::vector<std::optional<double>> made;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const std::string& record = answers[i].record;
      const nlohmann::json& row =
          file_of("online/online_dpo")["scores"][std::stoul(record.substr(record.rfind(':') + 1)) - 1];
      made.emplace_back(row[i % static_cast<std::size_t>(answers_to_each)].get<double>());
    }
    return made;
  }
};

class OnlineGolden : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Registries& all = registries();
    if (all.rewards.find("given_scores")) return;
    all.rewards.add<Scores>("given_scores", "For tests.");
    all.objectives.add<Given<objectives::OnlineDpo>>("given_online_dpo", "For tests.");
    all.objectives.add<Given<objectives::Xpo>>("given_xpo", "For tests.");
    all.objectives.add<Given<objectives::NashMd>>("given_nash_md", "For tests.");
    all.objectives.add<Given<objectives::Ppo>>("given_ppo", "For tests.");
  }

  std::filesystem::path run(const std::string& kind, const std::string& name, nlohmann::json options,
                            std::int64_t steps, std::int64_t prompts) {
    const std::int64_t accumulated = options.value("gradient_accumulation_steps", std::int64_t{1}),
                       updates = options.value("num_mini_batches", std::int64_t{1});
    options.erase("gradient_accumulation_steps"), options.erase("per_device_train_batch_size");
    std::string lines;
    for (const auto& ids : file_of("grpo/runs")["prompts"]) {
      std::string text;
      for (const int id : ids) text += static_cast<char>(id);
      lines += nlohmann::json{{"prompt", text}}.dump() + "\n";
    }
    std::string objective = "type: given_" + kind + ", rewards: [{type: given_scores}], max_completion_length: 12";
    if (kind != "ppo") objective += ", temperature: 0.7";
    if (kind == "ppo") objective += ", value_model: " + test::golden("train/reward/model").string();
    for (const auto& [option, value] : options.items()) objective += fmt::format(", {}: {}", option, value.dump());
    const std::string yaml = fmt::format(
        "model: {0}\ntokenizer: bytes\n"
        "data: {{train: {1}, max_length: 64, shuffle: false, cache: none}}\n"
        "objective: {{{2}}}\n"
        "optimizer: {{learning_rate: 1e-3, weight_decay: 0.1, schedule: {{type: constant}}}}\n"
        "trainer: {{precision: fp32, batch_size: {3}, accumulate: {4}, steps: {5}, log_every: 1, save: 0, "
        "max_grad_norm: {6}}}\nrun: {7}\n",
        test::golden("train/dpo").string(), folder_.write("prompts.jsonl", lines).string(), objective,
        prompts / (accumulated * updates), accumulated * updates, steps, kind == "ppo" ? 0 : 1,
        (folder_ / (kind + name)).string());
    train(read_recipe(folder_.write("recipe.yaml", yaml).string()), test::quiet_options());
    return folder_ / (kind + name);
  }

  // Each line of each run, and what TRL logged.
  void expect_equal(const std::string& kind, std::int64_t prompts) {
    for (const auto& [name, expected] : file_of("online/" + kind)["runs"].items()) {
      SCOPED_TRACE(kind + ", " + name);
      answers_are_full = name.starts_with("full");
      const nlohmann::json &history = expected["history"], &options = expected["options"];
      const std::int64_t updates = options.value("num_mini_batches", std::int64_t{1});
      const double accumulated = options.value("gradient_accumulation_steps", 1.0);  // TRL adds their gradients up
      const auto steps = std::ssize(history.begin().value());
      const std::vector<nlohmann::json> lines = test::metrics_of(run(kind, name, options, steps, prompts));
      ASSERT_EQ(std::ssize(lines), steps);
      for (std::size_t step = 0; step < lines.size(); ++step)
        for (const auto& [metric, values] : history.items()) {
          ASSERT_TRUE(lines[step].contains(metric)) << metric;
          // Of several updates TRL takes a mean that does not weigh them.
          if (updates > 1 && !metric.starts_with("objective/")) continue;
          const double wanted = values[step].get<double>() / (metric == "grad_norm" ? accumulated : 1.0);
          const bool rounded = metric == "loss" && kind == "online_dpo";  // to four digits
          const double tolerance = (rounded ? 6e-5 : 2e-5) * std::max(1.0, 5 * std::abs(wanted));
          EXPECT_NEAR(lines[step][metric].get<double>(), wanted, tolerance) << metric << ", step " << step + 1;
        }
      if (kind != "ppo" || updates > 1) continue;
      for (std::size_t step = 0; step < lines.size(); ++step) {
        const double wanted = history["loss/policy_avg"][step].get<double>() +
                              options.value("vf_coef", 0.1) * history["loss/value_avg"][step].get<double>();
        EXPECT_NEAR(lines[step]["loss"].get<double>(), wanted, 4e-5) << "loss, step " << step + 1;
      }
    }
    answers_are_full = false;
  }

  test::TempFolder folder_;
};

TEST_F(OnlineGolden, OnlineDpoEqualsTrl) { expect_equal("online_dpo", 4); }
TEST_F(OnlineGolden, XpoEqualsTrl) { expect_equal("xpo", 4); }
TEST_F(OnlineGolden, NashMdEqualsTrl) { expect_equal("nash_md", 4); }
TEST_F(OnlineGolden, PpoEqualsTrl) {
  answers_to_each = 1;
  expect_equal("ppo", 8);
  answers_to_each = 2;
}

// However a step is cut into micro-batches, all of its answers and tokens weigh the same.
TEST_F(OnlineGolden, MicroBatchesOfAnySizeLearnTheSame) {
  for (const std::string kind : {"online_dpo", "xpo", "nash_md", "ppo"}) {
    SCOPED_TRACE(kind);
    answers_to_each = kind == "ppo" ? 1 : 2;
    const nlohmann::json one{{"missing_eos_penalty", 0.5}},
        cut{{"missing_eos_penalty", 0.5}, {"gradient_accumulation_steps", 4}};
    const auto whole = test::metrics_of(run(kind, "whole", one, 3, 4)),
               parts = test::metrics_of(run(kind, "parts", cut, 3, 4));
    ASSERT_EQ(whole.size(), parts.size());
    for (std::size_t step = 0; step < whole.size(); ++step)
      for (const char* metric : {"loss", "grad_norm", "reward", "objective/entropy", "completions/mean_length"}) {
        const double wanted = whole[step][metric];
        EXPECT_NEAR(parts[step][metric].get<double>(), wanted, 2e-5 * std::max(1.0, std::abs(wanted)))
            << metric << ", step " << step + 1;
      }
  }
  answers_to_each = 2;
}

}  // namespace
}  // namespace hone
