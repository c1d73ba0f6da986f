// Runs of models with an encoder and a decoder: cuts of a step, resumption, ranks, adapters, what is foretold.
#include <gtest/gtest.h>

#include "dist/ranks.h"
#include "harness/close.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "train/complete.h"
#include "train/counted.h"
#include "train/meta_run.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Counted;
using test::Overrides;

const char* const kT5 =
    "{type: t5, d_model: 32, d_kv: 8, d_ff: 48, num_layers: 2, num_heads: 4, initializer_factor: 0.2, dropout_rate: 0}";
const char* const kBart =
    "{type: bart, d_model: 32, encoder_layers: 2, decoder_layers: 1, encoder_attention_heads: 4, "
    "decoder_attention_heads: 2, encoder_ffn_dim: 48, decoder_ffn_dim: 48, max_position_embeddings: 64, dropout: 0}";

class Seq2SeqRuns : public ::testing::Test {
 protected:
  Seq2SeqRuns() {
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (int w = 0; w <= i * 7 % 5; ++w) text += "abcdefgh"[(i + w) % 8];
      lines += fmt::format(R"({{"prompt": "upper: {}", "completion": "{}"}})", text,
                           std::string(text.rbegin(), text.rend())) +
               "\n";
    }
    folder_.write("pairs.jsonl", lines);
  }
  Recipe recipe(const std::string& name, Overrides more, const std::string& model = kT5) {
    const std::string yaml = fmt::format(
        "model: {1}\ntokenizer: bytes\n"
        "data: {{train: {0}/pairs.jsonl, eval: {{held_out: 0.2}}, max_length: 32}}\n"
        "objective: {{type: seq2seq, max_target_length: 8}}\n"
        "optimizer: {{type: adamw, learning_rate: 3e-3, schedule: {{type: constant}}}}\n"
        "trainer: {{batch_size: 4, steps: 6, precision: fp32, eval_every: 3, log_every: 1, save: {{every: 3, keep: "
        "0}}}}\n"
        "run: {{folder: {0}/{2}, seed: 3}}\n",
        folder_.path().string(), model, name);
    return read_recipe(folder_.write("recipe.yaml", yaml).string(), more);
  }
  std::vector<double> losses(const std::string& name, const Overrides& more, const std::string& model = kT5,
                             const std::string& key = "loss") {
    train(recipe(name, more, model), test::quiet_options());
    return logged(name, key);
  }
  std::vector<double> logged(const std::string& name, const std::string& key = "loss") const {
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(key)) values.push_back(line[key]);
    return values;
  }
  static void expect_same(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "line " << i;
  }
  std::vector<double> on_two_ranks(const std::string& name, const Overrides& more) {
    const Recipe made = recipe(name, more);
    test::on_ranks(2, [&](const World& world) {
      TrainOptions own = test::quiet_options();
      own.handle_signals = false, own.world = world;
      train(made, own);
    });
    return logged(name);
  }
  test::TempFolder folder_;
};

TEST_F(Seq2SeqRuns, AStepIsTheSameHoweverItIsCut) {
  for (const char* model : {kT5, kBart}) {
    const std::string tag = std::to_string(std::string(model).size());
    const auto wide = losses("wide " + tag, {{"trainer.batch_size", "8"}}, model);
    expect_same(losses("deep " + tag, {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"}}, model), wide, 3e-6);
    EXPECT_LT(wide.back(), wide.front());
    EXPECT_EQ(logged("wide " + tag, "eval_loss").size(), 2u);
  }
}

TEST_F(Seq2SeqRuns, CheckpointedBlocksGiveTheSameBits) {
  for (const char* model : {kT5, kBart}) {
    const std::string tag = std::to_string(std::string(model).size());
    const char* dropout = model == kT5 ? "model.dropout_rate" : "model.dropout";
    const auto kept = losses("kept " + tag, {{dropout, "0.2"}}, model);
    EXPECT_EQ(losses("remade " + tag, {{dropout, "0.2"}, {"trainer.checkpoint_blocks", "true"}}, model), kept);
    EXPECT_NE(losses("plain " + tag, {}, model), kept);
  }
}

TEST_F(Seq2SeqRuns, GoOnBitForBit) {
  const Overrides dropping{{"model.dropout_rate", "0.1"}, {"data.packing", "best_fit"}, {"trainer.precision", "bf16"}};
  train(recipe("whole", dropping), test::quiet_options());
  Overrides half = dropping;
  half.emplace_back("trainer.steps", "3");
  train(recipe("parts", half), test::quiet_options());
  EXPECT_EQ(train(recipe("parts", dropping), test::quiet_options()).resumed_from, 3);
  test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 6);
}

TEST_F(Seq2SeqRuns, RanksAndSharesAreOneProcess) {
  const Overrides cut{{"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}};
  const auto alone = losses("alone", cut);
  expect_same(on_two_ranks("two", cut), alone, 3e-6);
  Overrides sharded = cut;
  sharded.emplace_back("parallel.fsdp", "2");
  expect_same(on_two_ranks("shares", sharded), alone, 3e-6);
  sharded.emplace_back("trainer.checkpoint_blocks", "true");
  expect_same(on_two_ranks("shares again", sharded), alone, 3e-6);
}

TEST_F(Seq2SeqRuns, AdaptersAreOfQueriesAndValues) {
  train(recipe("base", {}), test::quiet_options());
  Recipe with = recipe("adapted", {});
  with.model = {};
  with.model.path = (folder_ / "base").string();
  with.adapter.type = "lora";
  with.adapter.targets = {"q", "v"};
  train(with, test::quiet_options());
  const auto config = test::read_json(folder_ / "adapted" / test::step_folder(6) / "adapter_config.json");
  EXPECT_EQ(config["task_type"], "SEQ_2_SEQ_LM");
  const auto tensors = test::read_tensors(folder_ / "adapted" / test::step_folder(6) / "adapter_model.safetensors");
  EXPECT_EQ(tensors.size(), 2u * 2 * (2 + 2 * 2));  // A and B of q and v in six attentions
  EXPECT_TRUE(tensors.contains("base_model.model.decoder.block.1.layer.1.EncDecAttention.v.lora_B.weight"));
}

TEST_F(Seq2SeqRuns, AreForetold) {
  for (const char* model : {kT5, kBart})
    for (const char* again : {"false", "true"}) {
      std::string lines;
      for (int i = 0; i < 400; ++i)
        lines +=
            fmt::format(R"({{"prompt": "{}", "completion": "{}"}})", std::string(28, 'a'), std::string(7, 'b')) + "\n";
      folder_.write("pairs.jsonl", lines);
      const Recipe given = training::completed_for_preview(recipe(std::string("planned ") + again,
                                                                  {{"trainer.batch_size", "64"},
                                                                   {"trainer.steps", "2"},
                                                                   {"data.eval.held_out", "0"},
                                                                   {"trainer.eval_every", "0"},
                                                                   {"trainer.save.every", "0"},
                                                                   {"trainer.checkpoint_blocks", again}},
                                                                  model));
      const training::MemoryPlan found = training::plan_memory(given, training::load_inputs(given, ""));
      EXPECT_EQ(found.unknown, "");
      const double foretold = static_cast<double>(found.lasting() + std::max(found.backward, found.evaluation));
      EXPECT_GT(found.kept, 0u);
      if (model != kT5) continue;
      Counted& counted = Counted::installed();
      const std::int64_t before = counted.used;
      counted.restart();
      TrainOptions options = test::quiet_options();
      options.fresh = std::filesystem::exists(given.run.folder);
      train(given, options);
      // Never too little; of models as small as this one too much, as many small tensors come and go.
      const double share = foretold / static_cast<double>(counted.most - before);
      EXPECT_GT(share, 0.98) << again;
      EXPECT_LT(share, 1.35) << again;
    }
}

TEST_F(Seq2SeqRuns, LearnToAnswer) {
  train(recipe("learnt", {{"trainer.steps", "400"},
                          {"trainer.batch_size", "16"},
                          {"trainer.save.every", "400"},
                          {"trainer.eval_every", "400"},
                          {"optimizer.learning_rate", "1e-2"}}),
        test::quiet_options());
  const auto model = load_model((folder_ / "learnt").string(), Precision::fp32);
  const auto tokenizer = load_tokenizer("bytes");
  Generator generator(*model, tokenizer);
  std::vector<std::int32_t> source = tokenizer->encode("upper: cde").ids;
  source.push_back(*tokenizer->eos_id);
  GenerateConfig config;
  config.max_new_tokens = 8;
  EXPECT_EQ(generator.generate({source}, config)[0].text, "edc");
}

TEST_F(Seq2SeqRuns, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(train(recipe("a", {{"objective", "{type: causal_lm}"}}), test::quiet_options()), config,
                    "objective causal_lm: needs a model that continues texts; one of type t5 has an encoder");
  EXPECT_HONE_ERROR(
      train(recipe("b", {}, "{type: llama, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 4}"),
            test::quiet_options()),
      config, "objective seq2seq: needs a model with an encoder and a decoder, as T5 and BART; got one of type llama");
  EXPECT_HONE_ERROR(train(recipe("c", {{"data.max_length", "80"}}, kBart), test::quiet_options()), config,
                    "data.max_length: got 80, expected at most 64");
  EXPECT_HONE_ERROR(train(recipe("d", {{"objective.max_target_length", "80"}}, kBart), test::quiet_options()), config,
                    "objective.max_target_length: got 80, expected at most 64");
  EXPECT_HONE_ERROR(train(recipe("e", {{"data.length_warmup.steps", "3"}}), test::quiet_options()), config,
                    "data.length_warmup: not with objective seq2seq");
}

}  // namespace
}  // namespace hone
