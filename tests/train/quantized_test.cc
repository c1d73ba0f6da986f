// Adapters beside weights in fewer bits (QLoRA): what is learnt, that it goes on bit for bit, and what is refused.
#include <gtest/gtest.h>

#include "hone/adapter.h"
#include "hone/hub.h"
#include "train/dry_run.h"
#include "train/support.h"

namespace hone {
namespace {

class QuantizedRuns : public ::testing::Test {
 protected:
  std::filesystem::path run(const std::string& name, const test::Overrides& overrides,
                            const TrainOptions& options = test::quiet_options()) {
    train(recipe(name, overrides), options);
    return folder_ / name;
  }
  Recipe recipe(const std::string& name, const test::Overrides& overrides, const std::string& model = "nf4-double") {
    const std::filesystem::path source = std::filesystem::absolute(test::golden("quantized")) / model;
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      std::string ids;
      for (int t = 0; t < 20 + i % 7; ++t)
        ids += fmt::format("{}{}", t > 0 ? ", " : "", (i * 5 + t * (i % 3 + 1)) % 96);
      lines += "{\"input_ids\": [" + ids + "]}\n";
    }
    folder_.write("train.jsonl", lines);
    const std::string yaml = fmt::format(
        "model: {2}\ntokenizer: none\ndata: {{train: {0}/train.jsonl, max_length: 32}}\n"
        "adapter: {{type: lora, rank: 4}}\n"
        "optimizer: {{learning_rate: 1e-2, schedule: {{type: cosine, warmup_steps: 2}}}}\n"
        "trainer: {{batch_size: 4, steps: 8, precision: fp32, log_every: 1, save: {{every: 4, keep: 0}}}}\n"
        "run: {{folder: {0}/{1}, seed: 3}}\n",
        folder_.path().string(), name, source.string());
    return read_recipe(folder_.write("recipe.yaml", yaml).string(), overrides);
  }
  static std::vector<double> losses(const std::filesystem::path& run) {
    std::vector<double> all;
    for (const nlohmann::json& line : test::metrics_of(run))
      if (line.contains("loss")) all.push_back(line["loss"]);
    return all;
  }
  static std::string adapter_of(const std::filesystem::path& run) {
    return test::read_text(run / test::step_folder(8) / "adapter_model.safetensors");
  }
  test::TempFolder folder_;
};

// To the bit what is learnt beside the weights that they stand for.
TEST_F(QuantizedRuns, LearnAsBesideWhatTheyStandFor) {
  for (const auto& [name, overrides] : std::vector<std::pair<std::string, test::Overrides>>{
           {"plain", {}},
           {"bf16", {{"trainer.precision", "bf16"}}},
           {"dropout", {{"adapter.dropout", "0.2"}, {"trainer.accumulate", "2"}}},
           {"checkpointed", {{"trainer.checkpoint_blocks", "true"}}},
           {"dora", {{"adapter.dora", "true"}}},
           {"pissa", {{"adapter.init", "pissa"}, {"adapter.alpha", "4"}}},
           {"whole",
            {{"adapter.modules_to_save", "[lm_head, layers.1.mlp.down_proj]"}, {"adapter.targets", "[q_proj]"}}}}) {
    SCOPED_TRACE(name);
    test::Overrides full = overrides;
    full.emplace_back("model.quantization", "none");
    const auto held = run(name, overrides), whole = run(name + "-full", full);
    EXPECT_EQ(losses(held), losses(whole));
    EXPECT_FALSE(adapter_of(held).empty());
    EXPECT_TRUE(adapter_of(held) == adapter_of(whole));
    EXPECT_LT(losses(held).back(), losses(held).front());
  }
}

TEST_F(QuantizedRuns, GoOnBitForBit) {
  for (const char* type : {"nf4", "int8"}) {
    const test::Overrides overrides{{"model.quantization", type}, {"trainer.precision", "bf16"}};
    const std::string name = type;
    train(recipe(name + "-whole", overrides, "whole"), test::quiet_options());
    train(recipe(name + "-parts", overrides, "whole"), test::quiet_options());
    TrainOptions back = test::quiet_options();
    back.resume = "4";
    train(recipe(name + "-parts", overrides, "whole"), back);
    EXPECT_EQ(losses(folder_ / (name + "-whole")), losses(folder_ / (name + "-parts")));
    EXPECT_TRUE(adapter_of(folder_ / (name + "-whole")) == adapter_of(folder_ / (name + "-parts")));
  }
}

// A reference that is the model itself holds its weights as the model does.
// What an adapter has whole is in full wherever the adapter is put on.
TEST_F(QuantizedRuns, ModulesThatAreSavedComeBack) {
  const test::Overrides saved{{"adapter.modules_to_save", "[layers.1.mlp.down_proj]"}, {"adapter.targets", "[q_proj]"}};
  const auto made = run("saved", saved);
  Batch batch;
  batch.ids_BT = at::tensor({1, 2, 3, 60, 5}, at::kLong).unsqueeze(0);
  const auto held = load_frozen_model(find_model(made.string()), Precision::fp32);
  const auto full = load_model(find_model(made.string()), Precision::fp32);
  EXPECT_TRUE(at::equal(full->causal_lm()->logits(batch), held->causal_lm()->logits(batch)));
  held->each_weight([&](const std::string& name, Weight& weight) {
    const bool in_full = name == "model.layers.1.mlp.down_proj.weight" || name.find("_proj") == std::string::npos;
    EXPECT_EQ(weight.quantized() == nullptr, in_full) << name;
  });
}

TEST_F(QuantizedRuns, AReferenceIsWhatTheRunBeganWith) {
  std::string pairs;
  for (int i = 0; i < 8; ++i)
    pairs += fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"yes {}\", \"rejected\": \"no\"}}\n", "abc"[i % 3], i);
  folder_.write("pairs.jsonl", pairs);
  const auto model = test::golden("train/dpo");
  for (const char* saved : {"[]", "[layers.0.mlp.down_proj]"}) {
    const std::string yaml = fmt::format(
        "model: {{path: {1}, quantization: nf4}}\ntokenizer: bytes\ndata: {{train: {0}/pairs.jsonl, packing: none}}\n"
        "adapter: {{type: lora, rank: 4, targets: [q_proj], modules_to_save: {2}}}\nobjective: {{type: dpo}}\n"
        "optimizer: {{learning_rate: 1e-3}}\ntrainer: {{batch_size: 4, steps: 1, precision: fp32, log_every: 1}}\n"
        "run: {0}/dpo{3}\n",
        folder_.path().string(), std::filesystem::absolute(model).string(), saved, std::string(saved).size());
    train(read_recipe(folder_.write("dpo.yaml", yaml).string(), {}), test::quiet_options());
    EXPECT_NEAR(losses(folder_ / fmt::format("dpo{}", std::string(saved).size())).at(0), std::log(2.0), 1e-6) << saved;
  }
}

TEST_F(QuantizedRuns, AreMergedInFull) {
  const auto made = run("merged", {});
  const auto model = load_model(find_model(made.string()), Precision::fp32);
  int quantized = 0;
  std::as_const(*model).each_weight(
      [&](const std::string&, const Weight& weight) { quantized += weight.quantized() != nullptr; });
  EXPECT_EQ(quantized, 0);
  const auto held = load_frozen_model(find_model(made.string()), Precision::fp32);
  Batch batch;
  batch.ids_BT = at::tensor({1, 2, 3, 60, 5}, at::kLong).unsqueeze(0);
  EXPECT_TRUE(at::equal(model->causal_lm()->logits(batch), held->causal_lm()->logits(batch)));
  unwrap_adapter(*held);
  unwrap_adapter(*model);
  EXPECT_TRUE(at::equal(model->causal_lm()->logits(batch), held->causal_lm()->logits(batch)));
}

TEST_F(QuantizedRuns, AreRefusedWithoutAnAdapter) {
  const test::Overrides none{{"adapter", "null"}};
  EXPECT_HONE_ERROR(run("a", none), config, "its weights are quantized, and all that is trained is kept in full");
  test::Overrides asked = none;
  asked.emplace_back("model.quantization", "nf4");
  EXPECT_HONE_ERROR(run("b", asked), config, "model.quantization: needs an adapter");
  asked.back().second = "none";
  const auto full = run("c", asked);
  EXPECT_LT(losses(full).back(), losses(full).front());
  const auto again = test::read_tensors(full / test::step_folder(8) / "model.safetensors");
  EXPECT_EQ(again.at("model.layers.0.mlp.up_proj.weight").scalar_type(), at::kFloat);
}

TEST_F(QuantizedRuns, ChangeWithinARunWhenAskedTo) {
  run("a", {});
  const test::Overrides other{{"model.quantization", "none"}, {"trainer.steps", "12"}};
  EXPECT_HONE_ERROR(run("a", other), config, "model.quantization.type: stored -> none  (refused)");
  TrainOptions back = test::quiet_options();
  back.override_keys = {"model.quantization"};
  EXPECT_EQ(losses(run("a", other, back)).size(), 12u);
}

}  // namespace
}  // namespace hone
