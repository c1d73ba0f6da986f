// Whole runs against Hugging Face's Trainer (tools/golden/golden_train.py tiny, stories).
#include <gtest/gtest.h>

#include "train/support.h"

namespace hone {
namespace {

void expect_history(const std::filesystem::path& run, const nlohmann::json& golden, double tolerance) {
  std::size_t step = 0;
  for (const nlohmann::json& line : test::metrics_of(run)) {
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

Recipe golden_recipe(const std::string& model, const std::string& data, const std::string& trainer,
                     const std::string& run) {
  Problems problems;
  const std::string yaml = fmt::format(
      "model: {}\ndata: {{train: {}, max_length: 256, overlong: keep_start, packing: none, shuffle: false, append_eos: "
      "false, cache: none}}\n"
      "optimizer: {{learning_rate: 1e-3, weight_decay: 0.1, schedule: {{type: cosine, warmup_steps: 2}}}}\n"
      "trainer: {{precision: fp32, log_every: 1, save: 0, {}}}\nrun: {}\n",
      model, data, trainer, run);
  config::Node node = config::parse_yaml(yaml, "test", problems);
  problems.raise();
  return read_recipe(node);
}

// Rows with labels of their own, three epochs in file order; padded, packed and one by one.
TEST(Runs, TwelveStepsEqualHfTrainer) {
  const nlohmann::json golden = test::read_json(test::golden("train/tiny_12_steps.json"));
  const test::TempFolder folder;
  for (const auto& [batch, accumulate] : {std::pair(2, 3), std::pair(6, 1), std::pair(1, 6)}) {
    SCOPED_TRACE(fmt::format("batch {} x {}", batch, accumulate));
    Recipe recipe = golden_recipe(test::golden("models/llama").string(), test::golden("train/rows.jsonl").string(),
                                  fmt::format("batch_size: {}, accumulate: {}, steps: 12", batch, accumulate),
                                  (folder / fmt::format("run{}", batch)).string());
    recipe.tokenizer = "bytes";
    train(recipe, test::quiet_options());
    expect_history(recipe.run.folder, golden, 2e-5);
  }
}

}  // namespace
}  // namespace hone
