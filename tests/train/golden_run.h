// Whole runs of Hugging Face's Trainer (tools/golden/golden_train.py tiny): their recipe, and what they logged.
#pragma once

#include "train/support.h"

namespace hone::test {

// `history`: of tests/golden.
inline void expect_golden_history(const std::filesystem::path& run, const std::string& history, double tolerance) {
  const nlohmann::json golden = read_json(test::golden(history));
  std::size_t step = 0;
  for (const nlohmann::json& line : metrics_of(run)) {
    if (!line.contains("loss")) continue;
    ASSERT_LT(step, golden["loss"].size());
    EXPECT_NEAR(line["loss"].get<double>(), golden["loss"][step].get<double>(), tolerance) << "step " << step + 1;
    EXPECT_NEAR(line["learning_rate"].get<double>(), golden["learning_rate"][step].get<double>(), 1e-12)
        << "step " << step + 1;
    const double norm = golden["grad_norm"][step];
    EXPECT_NEAR(line["grad_norm"].get<double>(), norm, 20 * tolerance * std::max(1.0, norm)) << "step " << step + 1;
    ++step;
  }
  EXPECT_EQ(step, golden["loss"].size());
}

// On rows with labels of their own, in file order.
inline Recipe golden_recipe(const std::string& model, const std::string& trainer, const std::string& run) {
  Problems problems;
  const std::string yaml = fmt::format(
      "model: {}\ndata: {{train: {}, max_length: 256, overlong: keep_start, packing: none, shuffle: false, append_eos: "
      "false, cache: none}}\ntokenizer: bytes\n"
      "optimizer: {{learning_rate: 1e-3, weight_decay: 0.1, schedule: {{type: cosine, warmup_steps: 2}}}}\n"
      "trainer: {{precision: fp32, log_every: 1, save: 0, {}}}\nrun: {}\n",
      test::golden(model).string(), test::golden("train/rows.jsonl").string(), trainer, run);
  config::Node node = config::parse_yaml(yaml, "test", problems);
  problems.raise();
  return read_recipe(node);
}

}  // namespace hone::test
