// Runs on the golden pairs of tools/golden/golden_dpo.py, and what TRL logged of the same.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "hone/trainer.h"
#include "train/support.h"

namespace hone::test {

class PairRuns : public ::testing::Test {
 protected:
  // In file order, with TRL's settings; `objective`: more of its options.
  std::filesystem::path run(const std::string& name, const Overrides& overrides = {}, const std::string& objective = "",
                            const TrainOptions& options = quiet_options()) {
    const std::string yaml = fmt::format(
        "model: {0}\ntokenizer: bytes\n"
        "data: {{train: {0}/pairs.jsonl, max_length: 256, packing: none, shuffle: false, cache: none}}\n"
        "objective: {{{3}{1}}}\n"
        "optimizer: {{learning_rate: 1e-3, weight_decay: 0.1, schedule: {{type: cosine, warmup_steps: 3}}}}\n"
        "trainer: {{precision: fp32, batch_size: 4, steps: 30, log_every: 1, save: 0}}\nrun: {2}\n",
        golden("train/dpo").string(), objective.empty() ? "" : ", " + objective, (folder_ / name).string(), objective_);
    const std::filesystem::path recipe = folder_.write("recipe.yaml", yaml);
    train(read_recipe(recipe.string(), overrides), options);
    return folder_ / name;
  }

  static void expect_history(const std::filesystem::path& run, const nlohmann::json& golden) {
    std::size_t step = 0;
    for (const nlohmann::json& line : metrics_of(run)) {
      if (!line.contains("loss")) continue;
      ASSERT_LT(step, golden["loss"].size());
      for (const auto& [name, values] : golden.items()) {
        ASSERT_TRUE(line.contains(name)) << name;
        const double expected = values[step];
        const double size = name == "grad_norm" ? 20 : name.starts_with("logps/") ? 0.1 : 1;  // sums of 100 terms
        EXPECT_NEAR(line[name].get<double>(), expected, 1e-4 * std::max(1.0, size * std::abs(expected)))
            << name << ", step " << step + 1;
      }
      ++step;
    }
    EXPECT_EQ(step, golden["loss"].size());
  }

  static std::vector<double> values(const std::filesystem::path& run, const std::string& key) {
    std::vector<double> all;
    for (const nlohmann::json& line : metrics_of(run))
      if (line.contains(key)) all.push_back(line[key]);
    return all;
  }
  // As many, near one another.
  static void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
  }

  std::string objective_ = "type: dpo, beta: 0.2";
  TempFolder folder_;
};

}  // namespace hone::test
