// Fine-tuning a real model: 50 steps against Hugging Face's Trainer (tools/golden/golden_train.py stories).
#include <gtest/gtest.h>

#include "train/evaluate.h"
#include "hone/hub.h"
#include "train/support.h"

namespace hone {
namespace {

// Token-weighted loss over all rows, cut at the golden's length.
double loss_on(const std::filesystem::path& folder, const std::string& rows) {
  const auto model = load_model(folder.string(), Precision::fp32);
  const Dataset::Options options{512, Overlong::keep_start, Packing::none, false, "", model->vocab_size()};
  DataFile file;
  file.path = rows;
  const auto data = Dataset::make({file}, *load_tokenizer(folder.string()), options);
  return training::evaluate(*model, training::make_evaluations({"perplexity"}), *data, {})->at("loss");
}

TEST(Stories, FiftyStepsEqualHfTrainer) {
  HONE_NEEDS_DATA(data, "datasets/tinystories/tinystories_1000.json");
  HONE_NEEDS_DATA(model, "models/stories260K");
  const nlohmann::json golden = test::read_json(test::golden("train/stories260k_50_steps.json"));
  const test::TempFolder folder;
  // The file is a list of texts.
  std::string lines;
  for (const nlohmann::json& text : test::read_json(data)) lines += nlohmann::json{{"text", text}}.dump() + "\n";
  const std::string rows = folder.write("rows.jsonl", lines).string();
  Problems problems;
  const std::string yaml = fmt::format(
      "model: {}\ndata: {{train: {}, max_length: 256, overlong: keep_start, packing: none, shuffle: "
      "false, append_eos: false}}\n"
      "optimizer: {{learning_rate: 1e-3, weight_decay: 0.1, schedule: {{type: cosine, warmup_steps: 5}}}}\n"
      "trainer: {{batch_size: 4, accumulate: 2, steps: 50, precision: fp32, log_every: 1, save: 0}}\nrun: {}\n",
      model.string(), rows, (folder / "run").string());
  config::Node node = config::parse_yaml(yaml, "test", problems);
  const Summary summary = train(read_recipe(node), test::quiet_options());
  std::vector<double> losses;
  for (const nlohmann::json& line : test::metrics_of(summary.folder))
    if (line.contains("loss")) losses.push_back(line["loss"]);
  ASSERT_EQ(losses.size(), 50u);
  for (std::size_t step = 0; step < 50; ++step)
    EXPECT_NEAR(losses[step], golden["loss"][step].get<double>(), 1e-4) << "step " << step + 1;
  const double before = loss_on(model, rows), after = loss_on(summary.checkpoint, rows);
  EXPECT_NEAR(before, golden["evaluation"]["untrained_loss"].get<double>(), 1e-5);
  EXPECT_NEAR(after, golden["evaluation"]["trained_loss"].get<double>(), 1e-4);
}

}  // namespace
}  // namespace hone
