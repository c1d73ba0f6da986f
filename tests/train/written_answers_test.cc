// Measures of answers that models write while they are trained: of ranks, of the best checkpoint, of several good
// answers, of conversations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "dist/ranks.h"
#include "hone/evaluation.h"
#include "hone/registry.h"
#include "train/evaluate.h"
#include "train/support.h"
#include "train/test.h"

namespace hone {
namespace {

using test::Overrides;

class WrittenAnswers : public ::testing::Test {
 protected:
  // To write a word backwards; of a model that continues texts, behind "=".
  std::string data(const std::string& file, const std::string& mark = "") {
    std::string lines;
    for (const char* word : {"rain", "bread", "moon", "chess", "tea", "rivers", "bees", "glass"}) {
      const std::string text = word;
      lines += fmt::format(R"({{"prompt": "{}{}", "completion": "{}"}})", text, mark,
                           std::string(text.rbegin(), text.rend())) +
               "\n";
    }
    return folder_.write(file, lines).string();
  }
  Recipe recipe(const std::string& name, const Overrides& more) {
    const std::string yaml = fmt::format(
        "model: {{type: t5, d_model: 32, d_kv: 16, d_ff: 64, num_layers: 1, num_heads: 2, initializer_factor: 0.2, "
        "dropout_rate: 0}}\n"
        "tokenizer: bytes\n"
        "data: {{train: {1}, eval: {{all: {1}}}, test: {{all: {1}}}, max_length: 12}}\n"
        "objective: {{type: seq2seq, max_target_length: 8}}\n"
        "metrics: [rouge, {{type: bleu, tokenize: char, max_new_tokens: 8}}, {{type: chrf, num_beams: 3}}]\n"
        "optimizer: {{type: adamw, learning_rate: 1e-2, schedule: {{type: constant}}}}\n"
        "trainer: {{batch_size: 2, accumulate: 4, steps: 30, precision: fp32, eval_every: 10, eval_batch_size: 3, "
        "save: {{every: 10}}}}\n"
        "run: {{folder: {0}/{2}, seed: 1}}\n",
        folder_.path().string(), data("p.jsonl"), name);
    return read_recipe(folder_.write("recipe.yaml", yaml).string(), more);
  }
  // Until it writes all of them.
  static Overrides learning(const Overrides& more) {
    Overrides all{{"trainer.steps", "200"}, {"trainer.save.every", "100"}, {"trainer.batch_size", "8"},
                  {"trainer.accumulate", "1"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<double> logged(const std::string& name, const std::string& key) const {
    std::vector<double> values;
    for (const nlohmann::json& line : test::metrics_of(folder_ / name))
      if (line.contains(key)) values.push_back(line[key]);
    return values;
  }
  // Of a model folder and a file, by the metrics of a recipe.
  Metrics measured(const std::string& model, const std::string& file, const std::string& metric,
                   RecordKind records = RecordKind::seq2seq) {
    const auto lm = load_model((folder_ / model).string(), Precision::fp32);
    training::EvaluateOptions options;
    options.tokenizer = load_tokenizer((folder_ / model / "latest").string());
    Dataset::Options how;
    how.records = records, how.packing = Packing::none, how.max_length = 64, how.keep_references = true;
    if (const Seq2SeqLm* reader = lm->seq2seq_lm()) how.targets.start = reader->decoder_start();
    DataFile data;
    data.path = file;
    const auto set = Dataset::make({data}, *options.tokenizer, how);
    return *training::evaluate(*lm, training::make_evaluations({metric}), *set, options);
  }
  test::TempFolder folder_;
};

TEST_F(WrittenAnswers, AreMeasuredAlikeOnAnyNumberOfRanks) {
  train(recipe("alone", {}), test::quiet_options());
  const Recipe made = recipe("two", {});
  test::on_ranks(2, [&](const World& world) {
    TrainOptions own = test::quiet_options();
    own.handle_signals = false, own.world = world;
    train(made, own);
  });
  for (const char* key : {"eval_rouge1", "eval_rouge2", "eval_rougeL", "eval_rougeLsum", "eval_bleu", "eval_chrf",
                          "eval_answer_length", "eval_prompts"}) {
    EXPECT_EQ(logged("alone", key).size(), 3u) << key;
    EXPECT_EQ(logged("two", key), logged("alone", key)) << key;
  }
  EXPECT_EQ(logged("alone", "eval_prompts").back(), 8);
}

TEST_F(WrittenAnswers, ChooseTheBestCheckpointAndAreTested) {
  const Recipe made = recipe("best", learning({{"trainer.save.best_by", "eval_chrf"}, {"trainer.eval_every", "100"}}));
  train(made, test::quiet_options());
  const auto chrf = logged("best", "eval_chrf");
  ASSERT_EQ(chrf.size(), 2u);
  EXPECT_GT(chrf[1], 95);
  const Metrics tested = training::test(made, folder_ / "best" / test::step_folder(200));
  EXPECT_DOUBLE_EQ(tested.at("test_chrf"), chrf[1]);
  EXPECT_DOUBLE_EQ(tested.at("test_bleu"), logged("best", "eval_bleu").back());
}

// The first is learnt, and each is good.
TEST_F(WrittenAnswers, AreComparedWithAllThatIsGood) {
  train(recipe("learnt", learning({{"trainer.eval_every", "0"}})), test::quiet_options());
  const std::string one = folder_.write("one.jsonl", R"({"prompt": "moon", "completion": "zzzz"})"
                                                     "\n"
                                                     R"({"prompt": "rain", "completion": "niar"})")
                              .string();
  const std::string several =
      folder_.write("several.jsonl", R"({"prompt": "moon", "completion": ["zzzz", "noom"]})"
                                     "\n"
                                     R"({"instruction": "rain", "output": ["niar", "x"], "input": ""})")
          .string();
  EXPECT_DOUBLE_EQ(measured("learnt", one, "rouge").at("rougeL"), 0.5);
  EXPECT_DOUBLE_EQ(measured("learnt", several, "rouge").at("rougeL"), 1);
  EXPECT_DOUBLE_EQ(measured("learnt", several, "chrf").at("chrf"), 100);
  // Of ids there is no text but what they stand for: n o o m <|eos|>
  const std::string ids =
      folder_.write("ids.jsonl", R"({"input_ids": [109, 111, 111, 110, 257], "labels": [110, 111, 111, 109, 257]})")
          .string();
  EXPECT_DOUBLE_EQ(measured("learnt", ids, "rouge").at("rouge1"), 1);
}

TEST_F(WrittenAnswers, OfModelsThatContinueTexts) {
  const std::string file = data("q.jsonl", "=");
  const Recipe made = recipe("causal", {{"model", "{type: llama, hidden_size: 32, intermediate_size: 64, "
                                                  "num_hidden_layers: 2, num_attention_heads: 4}"},
                                        {"objective", "{type: causal_lm}"},
                                        {"data.train", file},
                                        {"data.eval", "{all: " + file + "}"},
                                        {"data.test", "{}"},
                                        {"data.max_length", "32"},
                                        {"metrics", "[exact_match, {type: bleu, tokenize: char}]"},
                                        {"trainer.steps", "200"},
                                        {"trainer.eval_every", "100"}});
  train(made, test::quiet_options());
  EXPECT_GT(logged("causal", "eval_exact_match").back(), 0.95);
  EXPECT_GT(logged("causal", "eval_bleu").back(), 95);
  EXPECT_LT(logged("causal", "eval_bleu").front(), logged("causal", "eval_bleu").back() + 1);
}

// Samples are answers to sources, beside what the data make of them.
TEST_F(WrittenAnswers, AreSamplesOfModelsWithAnEncoder) {
  train(recipe("samples", learning({{"trainer.eval_every", "0"},
                                    {"callbacks", "[{type: samples, every: 200, prompts: [moon], from: train, "
                                                  "count: 2}]"}})),
        test::quiet_options());
  std::ifstream file(folder_ / "samples" / "samples.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["text"], "noom");
  for (const int i : {1, 2}) {
    const std::string reference = lines[i]["reference"];
    EXPECT_EQ(lines[i]["text"], reference);
    EXPECT_EQ(lines[i]["prompt"], std::string(reference.rbegin(), reference.rend()) + "<|eos|>");
  }
  EXPECT_HONE_ERROR(train(recipe("chat", {{"callbacks", "[{type: samples, every: 1, prompts: [a], chat: true}]"}}),
                          test::quiet_options()),
                    config, "callback samples with chat: needs a model that continues texts");
}

TEST_F(WrittenAnswers, WhatCannotBeIsRefused) {
  const auto fails = [&](const Overrides& more, const char* expected) {
    EXPECT_HONE_ERROR(train(recipe("refused", more), test::quiet_options()), config, expected);
  };
  fails({{"metrics", "[rouge, {type: rouge, use_stemmer: true}]"}},
        "metrics.1: rouge is measured already; its numbers would have the same names");
  fails({{"metrics", "[preference]"}}, "metrics.0: preference is not measured on the records of objective seq2seq");
  fails({{"parallel.fsdp", "-1"}}, "metrics.0: rouge: not with parallel.fsdp");
  fails({{"data.eval", "{}"}, {"data.test", "{}"}, {"trainer.eval_every", "0"}}, "there is nothing to evaluate on");
  fails({{"metrics", "[{type: bleu, num_beams: 3, temperature: 1}]"}}, "not with num_beams");
  fails({{"metrics", "[{type: chrf, top_k: 3}]"}}, "only with a temperature above 0");
  fails({{"metrics", "[blue]"}}, "did you mean bleu?");
}

// Though nothing is measured before the end.
TEST_F(WrittenAnswers, WhatTheModelCannotWriteIsRefusedBeforeTheFirstStep) {
  train(recipe("base", {{"trainer.steps", "1"}, {"trainer.eval_every", "0"}}), test::quiet_options());
  const std::filesystem::path base = folder_ / "base" / test::step_folder(1);
  folder_.write((std::filesystem::relative(base, folder_.path()) / "generation_config.json").string(),
                R"({"num_beams": 2})");
  const auto fails = [&](Overrides more, const char* expected) {
    more.push_back({"trainer.eval_every", "0"});
    EXPECT_HONE_ERROR(train(recipe("refused", more), test::quiet_options()), config, expected);
    EXPECT_TRUE(logged("refused", "loss").empty());
  };
  const std::pair<std::string, std::string> model{"model", "{path: " + base.string() + "}"};
  fails({model, {"metrics", "[{type: rouge, stop: [x]}]"}}, "stop: not with num_beams");
  fails({{"metrics", "[{type: rouge, forced_bos_token_id: 100000}]"}}, "forced_bos_token_id: got 100000");
  fails({{"model", "{type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, "
                   "num_attention_heads: 4}"},
         {"objective", "{type: causal_lm}"},
         {"data.max_length", "32"},
         {"metrics", "[{type: rouge, forced_bos_token_id: 3}]"}},
        "forced_bos_token_id: is of models with an encoder");
}

// A tokenizer of mBART-50's kind.
TEST_F(WrittenAnswers, SamplesAreOfTheObjectivesLanguages) {
  std::string added, vocab;
  const char* const tokens[] = {"<pad>", "</s>", "<unk>", "en_XX", "ro_RO", "a", "b", "c"};
  for (int id = 0; id < 8; ++id) {
    vocab += fmt::format(R"({}"{}": {})", id == 0 ? "" : ", ", tokens[id], id);
    if (id < 5)
      added += fmt::format(R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false,
                            "normalized": false, "special": true}})",
                           id == 0 ? "" : ", ", id, tokens[id]);
  }
  const std::string around = R"([{"SpecialToken": {"id": "en_XX", "type_id": 0}}, {"Sequence": {"id": "A", "type_id":
      0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}])";
  const std::filesystem::path file = folder_.write(
      "words/tokenizer.json",
      R"({"version": "1.0", "added_tokens": [)" + added + R"(], "pre_tokenizer": {"type": "Whitespace"},
         "post_processor": {"type": "TemplateProcessing", "single": )" + around + R"(, "pair": )" + around +
          R"(, "special_tokens": {"en_XX": {"id": "en_XX", "ids": [3], "tokens": ["en_XX"]},
         "</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}, "model": {"type": "WordLevel", "vocab": {)" +
          vocab + R"(}, "unk_token": "<unk>"}})");
  folder_.write("words/tokenizer_config.json", R"({"eos_token": "</s>", "pad_token": "<pad>"})");
  // What the model learns of sources that are marked so, and writes of "a b".
  const auto text = [&](const std::string& name, const std::string& records, int tokens) {
    const std::string pairs = folder_.write(name + ".jsonl", records).string();
    train(recipe(name, {{"tokenizer", file.string()},
                        {"data", "{train: " + pairs + ", max_length: 12}"},
                        {"metrics", "[]"},
                        {"objective", "{type: seq2seq, src_lang: ro_RO, tgt_lang: ro_RO}"},
                        {"callbacks", fmt::format("[{{type: samples, every: 100, prompts: [a b], max_new_tokens: {}}}]",
                                                  tokens)},
                        {"trainer", "{batch_size: 1, steps: 100, precision: fp32}"}}),
          test::quiet_options());
    std::ifstream written(folder_ / name / "samples.jsonl");
    std::string line;
    std::getline(written, line);
    return nlohmann::json::parse(line)["text"].get<std::string>();
  };
  EXPECT_EQ(text("sources", "{\"input_ids\": [3, 5, 6, 1], \"labels\": [4, 6, 1]}\n"
                            "{\"input_ids\": [4, 5, 6, 1], \"labels\": [4, 7, 1]}\n", 2), "c");
  EXPECT_EQ(text("targets", "{\"input_ids\": [4, 5, 6, 1], \"labels\": [7, 7, 1]}\n", 1), "");
}

}  // namespace
}  // namespace hone
