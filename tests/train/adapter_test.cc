// Runs that train an adapter: what they save, that they go on bit for bit, and what they refuse.
#include "hone/adapter.h"

#include <gtest/gtest.h>

#include "hone/hub.h"
#include "train/support.h"

namespace hone {
namespace {

class AdapterRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    train(test::small_recipe(folder_, {{"trainer.steps", "3"}, {"run.folder", (folder_ / "base").string()}}),
          test::quiet_options());
  }
  std::filesystem::path run(const std::string& name, const test::Overrides& overrides,
                            const TrainOptions& options = test::quiet_options()) {
    folder_.write("train.jsonl", test::story_lines(60));
    const std::string yaml = fmt::format(
        "model: {0}/base\ndata: {{train: {0}/train.jsonl, max_length: 64}}\nadapter: {{type: lora, rank: 4}}\n"
        "optimizer: {{learning_rate: 1e-2, schedule: {{type: cosine, warmup_steps: 2}}}}\n"
        "trainer: {{batch_size: 4, steps: 8, precision: fp32, log_every: 1, save: {{every: 4, keep: 0}}}}\n"
        "run: {{folder: {0}/{1}, seed: 3}}\n",
        folder_.path().string(), name);
    const std::filesystem::path recipe = folder_.write("recipe.yaml", yaml);
    train(read_recipe(recipe.string(), overrides), options);
    return folder_ / name;
  }
  static void expect_equal(const std::filesystem::path& a, const std::filesystem::path& b, std::int64_t step) {
    const std::string folder = test::step_folder(step);
    for (const char* name : {"adapter_model.safetensors", "adapter_config.json",
                             "state/optimizer-00000-of-00001.safetensors", "trainer_state.json"}) {
      const std::string one = test::read_text(a / folder / name), other = test::read_text(b / folder / name);
      EXPECT_FALSE(one.empty()) << name;
      EXPECT_TRUE(one == other) << name << " differs";
    }
    EXPECT_EQ(test::fixed_metrics_of(a), test::fixed_metrics_of(b));
  }
  test::TempFolder folder_;
};

TEST_F(AdapterRuns, InHalfPrecisionStaysNearFp32) {
  const auto full = test::metrics_of(run("full", {})),
             half = test::metrics_of(run("half", {{"trainer.precision", "fp16"}}));
  EXPECT_NEAR(full.back()["loss"].get<double>(), half.back()["loss"].get<double>(), 0.01);
}

// A rate of their own, which follows the schedule: at that of the others nothing is otherwise, at 0 they stay.
TEST_F(AdapterRuns, FactorsOfTablesHaveTheirLearningRate) {
  const auto made = [&](const std::string& name, const test::Overrides& more) {
    test::Overrides all{{"adapter.targets", "[q_proj, embed_tokens]"}, {"optimizer.weight_decay", "0"}};
    all.insert(all.end(), more.begin(), more.end());
    return test::read_tensors(run(name, all) / test::step_folder(8) / "adapter_model.safetensors");
  };
  const auto usual = made("usual", {}), same = made("same", {{"adapter.loraplus_lr_embedding", "1e-2"}}),
             still = made("still", {{"adapter.loraplus_lr_embedding", "0"}, {"adapter.loraplus_lr_ratio", "4"}});
  for (const auto& [name, tensor] : usual) EXPECT_TRUE(at::equal(tensor, same.at(name))) << name;
  const std::string table = "base_model.model.model.embed_tokens.lora_embedding_";
  EXPECT_EQ(still.at(table + "A").count_nonzero().item<std::int64_t>(), 0);  // which begins so, as in PEFT
  EXPECT_GT(usual.at(table + "A").count_nonzero().item<std::int64_t>(), 0);
  EXPECT_FALSE(at::equal(still.at(table + "B"), usual.at(table + "B")));
  EXPECT_HONE_ERROR(run("none", {{"adapter.targets", "[q_proj]"}, {"adapter.loraplus_lr_embedding", "1e-3"}}), config,
                    "no table has an adapter");
  EXPECT_HONE_ERROR(run("off", {{"adapter.targets", "[embed_tokens]"},
                                {"adapter.loraplus_lr_embedding", "1e-3"},
                                {"optimizer.learning_rate", "0"}}),
                    config, "no learning_rate above 0");
}

TEST_F(AdapterRuns, ACheckpointHoldsTheAdapterAlone) {
  const auto made = run("plain", {});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(made / test::step_folder(8)))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"MANIFEST.json", "adapter_config.json", "adapter_model.safetensors",
                                             "generation_config.json", "state", "tokenizer.json",
                                             "tokenizer_config.json", "trainer_state.json"}));
  const auto tensors = test::read_tensors(made / test::step_folder(8) / "adapter_model.safetensors");
  EXPECT_EQ(tensors.size(), 28u);
  EXPECT_EQ(tensors.at("base_model.model.model.layers.1.mlp.up_proj.lora_A.weight").sizes(), (at::IntArrayRef{4, 32}));
  // The optimizer knows nothing else.
  const auto state = test::read_tensors(made / test::step_folder(8) / "state/optimizer-00000-of-00001.safetensors");
  EXPECT_EQ(state.size(), 56u);
}

TEST_F(AdapterRuns, EachKindGoesOnBitForBit) {
  const std::vector<std::pair<std::string, test::Overrides>> kinds = {
      {"plain", {}},
      {"dropout", {{"adapter.dropout", "0.2"}}},
      {"dora", {{"adapter.dora", "true"}, {"adapter.rslora", "true"}}},
      {"pissa", {{"adapter.init", "pissa"}, {"adapter.alpha", "4"}}},
      {"estimated", {{"adapter.init", "pissa_niter_3"}, {"trainer.precision", "bf16"}}},
      {"saved", {{"adapter.modules_to_save", "[lm_head, norm]"}, {"adapter.targets", "[q_proj, embed_tokens]"}}},
      {"bf16", {{"trainer.precision", "bf16"}, {"adapter.loraplus_lr_ratio", "4"}}},
      {"tables", {{"adapter.targets", "[q_proj, embed_tokens]"}, {"adapter.loraplus_lr_embedding", "1e-3"}}},
      {"checkpointed", {{"trainer.checkpoint_blocks", "true"}, {"trainer.accumulate", "2"}}}};
  for (const auto& [name, overrides] : kinds) {
    SCOPED_TRACE(name);
    const auto whole = run(name + "-whole", overrides), parts = run(name + "-parts", overrides);
    TrainOptions back = test::quiet_options();
    back.resume = "4";
    run(name + "-parts", overrides, back);
    expect_equal(whole, parts, 8);
    std::vector<double> losses;
    for (const nlohmann::json& line : test::metrics_of(whole))
      if (line.contains("loss")) losses.push_back(line["loss"]);
    EXPECT_LT(losses.back(), losses.front());
  }
}

// Rows of tokens are trained beside the factors, and are the head's where it is tied.
TEST_F(AdapterRuns, RowsOfTokensGoOnBitForBit) {
  train(test::small_recipe(folder_, {{"trainer.steps", "3"}, {"run.folder", (folder_ / "tied").string()},
                                     {"model.tie_word_embeddings", "true"}}),
        test::quiet_options());
  const std::vector<std::pair<std::string, test::Overrides>> kinds = {
      {"untied", {}},
      {"tied", {{"model.path", (folder_ / "tied").string()}}},
      {"bf16", {{"model.path", (folder_ / "tied").string()}, {"trainer.precision", "bf16"}}},
      {"checkpointed", {{"model.path", (folder_ / "tied").string()}, {"trainer.checkpoint_blocks", "true"},
                        {"trainer.accumulate", "2"}}}};
  const std::string name_in_file = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
  for (const auto& [name, more] : kinds) {
    SCOPED_TRACE(name);
    test::Overrides overrides{{"adapter.trainable_token_indices", "[\"e\", 257]"}};  // "e" of bytes is 101
    overrides.insert(overrides.end(), more.begin(), more.end());
    const auto whole = run(name + "-whole", overrides), parts = run(name + "-parts", overrides);
    TrainOptions back = test::quiet_options();
    back.resume = "4";
    run(name + "-parts", overrides, back);
    expect_equal(whole, parts, 8);
    const auto config = test::read_json(whole / test::step_folder(8) / "adapter_config.json");
    EXPECT_EQ(config["trainable_token_indices"], nlohmann::json({101, 257}));
    EXPECT_EQ(config.value("ensure_weight_tying", false), name != "untied");
    const at::Tensor first =
        test::read_tensors(whole / test::step_folder(4) / "adapter_model.safetensors").at(name_in_file);
    const at::Tensor last =
        test::read_tensors(whole / test::step_folder(8) / "adapter_model.safetensors").at(name_in_file);
    EXPECT_EQ(last.sizes(), (at::IntArrayRef{2, 32}));
    EXPECT_FALSE(at::equal(first[0], last[0]));
    // The merged model is the adapter's.
    auto model = load_model(whole.string(), Precision::fp32);
    unwrap_adapter(*model);
    model->each_weight([&](const std::string& own, Weight& weight) {
      if (own != "model.embed_tokens.weight") return;
      EXPECT_TRUE(at::equal(weight.use()[257], last[1]));
    });
  }
  EXPECT_HONE_ERROR(run("none", {{"adapter.trainable_token_indices", "[\"<|im_end|>\"]"}}), config,
                    "adapter.trainable_token_indices: \"<|im_end|>\": no token of the tokenizer");
}

TEST_F(AdapterRuns, MicroBatchesAreOneBatchForRowsOfTokens) {
  const auto made = [&](const std::string& name, const test::Overrides& more) {
    test::Overrides all{{"adapter.trainable_token_indices", "[101]"}, {"trainer.steps", "4"}};
    all.insert(all.end(), more.begin(), more.end());
    return test::read_tensors(run(name, all) / test::step_folder(4) / "adapter_model.safetensors");
  };
  const auto one = made("one", {}),
             four = made("four", {{"trainer.batch_size", "1"}, {"trainer.accumulate", "4"}});
  for (const auto& [name, tensor] : one)
    EXPECT_LE((tensor - four.at(name)).abs().max().item<double>(), 1e-4) << name;
}

// The model of a run folder is the base with its adapter; going on from it as a new run begins where it ended.
TEST_F(AdapterRuns, ARunIsAModelAndAStart) {
  const auto made = run("plain", {});
  const auto model = load_model(made.string(), Precision::fp32);
  EXPECT_TRUE(model->has_adapters());
  const auto file = test::read_tensors(made / test::step_folder(8) / "adapter_model.safetensors");
  for (const auto& [name, value] : split_adapter(*model))
    EXPECT_TRUE(at::equal(value, file.at("base_model.model." + name))) << name;
  EXPECT_HONE_ERROR(find_model_folder(made.string()), checkpoint, "an adapter; expected a whole model");
  EXPECT_HONE_ERROR(find_adapter_folder((folder_ / "base").string()), checkpoint, "a model; expected an adapter");
  EXPECT_HONE_ERROR(run("nested", {{"model.path", made.string()}}), checkpoint, "an adapter; expected a whole model");
  const auto next = run("next", {{"adapter", "{type: lora, path: " + made.string() + "}"},
                                 {"trainer.steps", "1"},
                                 {"optimizer.schedule.warmup_steps", "0"},
                                 {"optimizer.learning_rate", "0"},
                                 {"optimizer.schedule", "{type: constant}"}});
  const auto same = test::read_tensors(next / test::step_folder(1) / "adapter_model.safetensors");
  for (const auto& [name, value] : file) EXPECT_TRUE(at::equal(value, same.at(name))) << name;
}

// What the checkpoint holds was made with it.
TEST_F(AdapterRuns, TheShapeOfAnAdapterCannotChangeWithinARun) {
  run("plain", {});
  for (const auto& [option, value] : test::Overrides{{"adapter.rank", "8"}, {"adapter.dora", "true"}}) {
    TrainOptions back = test::quiet_options();
    back.override_keys = {"all"};
    EXPECT_HONE_ERROR(run("plain", {{option, value}, {"trainer.steps", "12"}}, back), config, "cannot change");
  }
}

TEST_F(AdapterRuns, AFrozenBaseNeedsNoStateAndStaysAsItIs) {
  const auto before = test::read_text(folder_ / "base" / test::step_folder(3) / "model.safetensors");
  run("plain", {});
  EXPECT_EQ(test::read_text(folder_ / "base" / test::step_folder(3) / "model.safetensors"), before);
}

TEST_F(AdapterRuns, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(run("a", {{"adapter.type", "lorra"}}), config, "adapter.type: got \"lorra\", expected lora");
  EXPECT_HONE_ERROR(run("b", {{"adapter.targets", "[q_prj]"}}), config, "did you mean q_proj?");
  EXPECT_HONE_ERROR(run("c", {{"adapter.rank", "33"}}), config, "adapter.rank: got 33, expected at most");
  EXPECT_HONE_ERROR(run("d", {{"adapter.init", "best"}}), config, "adapter.init: got \"best\"");
  EXPECT_HONE_ERROR(run("e", {{"model.trainable", "[lm_head]"}}), config, "model.trainable: not together with adapter");
  EXPECT_HONE_ERROR(run("f", {{"trainer.save.dtype", "bf16"}}), config, "trainer.save.dtype: not with adapter");
  EXPECT_HONE_ERROR(run("g", {{"adapter.path", (folder_ / "base").string()}}), config, "leave them out");
  EXPECT_HONE_ERROR(run("h", {{"adapter", "{rank: 4}"}}), config, "adapter.type: missing: lora");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b"));
}

// A head for labels is trained with the adapter, saved with it, and read with it.
TEST_F(AdapterRuns, AClassifiersHeadIsTrainedWhole) {
  std::string lines, others;
  for (int i = 0; i < 40; ++i) {
    lines += fmt::format("{{\"text\": \"{0} and {0}\", \"label\": \"{1}\"}}\n", i, i % 2 ? "odd" : "even");
    others += fmt::format("{{\"text\": \"{0}\", \"label\": \"{1}\"}}\n", i, i % 2 ? "one" : "two");
  }
  const auto labelled = folder_.write("labelled.jsonl", lines), other = folder_.write("other.jsonl", others);
  const test::Overrides objective{{"data.train", labelled.string()}, {"objective", "classification"}};
  test::Overrides fresh = objective, mine = objective;
  fresh.insert(fresh.end(), {{"adapter", "null"},
                             {"tokenizer", "bytes"},
                             {"trainer.steps", "3"},
                             {"model",
                              "{type: bert, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                              "num_attention_heads: 2, max_position_embeddings: 64}"}});
  mine.push_back({"model.path", run("head", fresh).string()});
  const auto whole = run("whole", mine), parts = run("parts", mine);
  TrainOptions back = test::quiet_options();
  back.resume = "4";
  run("parts", mine, back);
  expect_equal(whole, parts, 8);
  const auto before = test::read_tensors(folder_ / "head" / test::step_folder(3) / "model.safetensors"),
             made = test::read_tensors(whole / test::step_folder(8) / "adapter_model.safetensors");
  const at::Tensor& head = made.at("base_model.model.classifier.weight");
  EXPECT_FALSE(at::equal(head, before.at("classifier.weight")));
  EXPECT_FALSE(made.contains("base_model.model.classifier.lora_A.weight"));
  const auto config = test::read_json(whole / test::step_folder(8) / "adapter_config.json");
  EXPECT_EQ(config["modules_to_save"], nlohmann::json({"classifier"}));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  load_model(whole.string(), Precision::fp32)->each_weight([&](const std::string& name, Weight& weight) {
    if (name != "classifier.weight") return;
    EXPECT_TRUE(at::equal(weight.use(), head));
  });
  // PEFT lists the heads of every kind of model.
  auto written = config;
  written["modules_to_save"] = {"classifier", "score"};
  std::filesystem::copy(whole / test::step_folder(8), folder_ / "peft", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder_ / "peft" / "state");
  std::ofstream(folder_ / "peft" / "adapter_config.json") << written.dump();
  test::Overrides on = mine;
  on.push_back({"adapter", "{type: lora, path: " + (folder_ / "peft").string() + "}"});
  const auto next = run("next", on), next_parts = run("next-parts", on);
  run("next-parts", on, back);
  expect_equal(next, next_parts, 8);
  EXPECT_FALSE(at::equal(test::read_tensors(next / test::step_folder(8) / "adapter_model.safetensors")
                             .at("base_model.model.classifier.weight"),
                         head));
  mine[0].second = other.string(), mine[1].second = "{type: classification, labels: [one, two]}";
  EXPECT_HONE_ERROR(run("other", mine), config, "the model's head is for others than is to be learnt");
}

TEST_F(AdapterRuns, AnotherBaseThanBeforeIsRefused) {
  const test::Overrides few{{"trainer.steps", "4"}};
  run("mine", few);
  train(test::small_recipe(folder_, {{"trainer.steps", "5"}, {"run.folder", (folder_ / "base").string()}}),
        test::quiet_options());
  EXPECT_HONE_ERROR(run("mine", {{"trainer.steps", "6"}}), checkpoint,
                    "the base is not the model that the run has had so far");
}

}  // namespace
}  // namespace hone
