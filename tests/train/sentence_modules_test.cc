// Dense and LayerNorm behind pooling, EmbeddingGemma's form, and folders of other encoders, against
// sentence-transformers (tools/golden/golden_sentence_modules.py).
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/errors.h"
#include "hone/hub.h"
#include "hub/sentence_files.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::embedding_golden;
using test::values;

const std::vector<std::string> kFolders{"gemma3", "modules", "nomic", "gte", "euro"};

class SentenceModules : public test::EmbeddingRuns {
 protected:
  SentenceModules() : EmbeddingRuns("more.json") {}
  static Tensor weight(const std::filesystem::path& folder, const std::string& module, const std::string& name) {
    return test::read_tensors(folder / module / "model.safetensors").at(name);
  }
};

TEST_F(SentenceModules, StepsEqualSentenceTransformers) {
  for (const std::string& model : kFolders) expect_steps(model);
}

Tensor vectors_in(const std::filesystem::path& folder, const nlohmann::json& texts, bool of_queries) {
  const auto said = *hub::read_sentence_folder(folder);
  const auto network = load_model(folder.string(), Precision::fp32);
  hub::load_vector_modules(*network, folder, Precision::fp32);
  const auto tokenizer = load_tokenizer(folder.string());
  const std::string prompt = of_queries ? said.prompt({"query"}) : "";
  std::vector<HostRow> rows;
  for (const std::string text : texts) {
    const auto ids = tokenizer->encode_fitting({.first = prompt + text, .second = {}}, *said.max_length).ids;
    HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = std::vector<std::int64_t>(ids.size(), -100)};
    rows.push_back({std::move(doc)});
  }
  const c10::NoGradGuard no_grad;
  const Batch batch = to_batch(pad(rows, 0));
  Pass pass(batch);
  const Tensor whole_SD = nn::vectors_of(*network, network->forward(batch, pass), batch, said.pooling, pass);
  return said.normalize ? nn::unit_rows(whole_SD) : whole_SD;
}

TEST_F(SentenceModules, VectorsEqualSentenceTransformers) {
  for (const std::string& model : kFolders)
    for (const bool of_queries : {false, true}) {
      SCOPED_TRACE(model);
      const Tensor made_SD = vectors_in(embedding_golden(model), golden_["texts"], of_queries);
      const nlohmann::json& expected = golden_[model][of_queries ? "query_vectors" : "vectors"];
      ASSERT_EQ(made_SD.size(0), std::ssize(expected));
      ASSERT_EQ(made_SD.size(1), std::ssize(expected[0]));
      for (std::int64_t i = 0; i < made_SD.size(0); ++i)
        for (std::int64_t j = 0; j < made_SD.size(1); ++j)
          EXPECT_NEAR(made_SD[i][j].item<double>(), expected[i][j].get<double>(), 1e-5) << i << " " << j;
    }
}

TEST_F(SentenceModules, WhatIsMeasuredIsAsTheEvaluatorsSay) {
  for (const std::string& model : kFolders) {
    SCOPED_TRACE(model);
    const auto made = run(model + " measured", model, "triplets", "",
                          {{"data.eval.all", embedding_golden("triplets.jsonl").string()},
                           {"trainer.eval_at_start", "true"},
                           {"trainer.eval_batch_size", "5"}});
    for (const auto& [name, value] : golden_[model]["measured"].items()) {
      if (name == "spearman_cosine") continue;
      EXPECT_NEAR(values(made, "eval_" + name).at(0), value.get<double>(), 1e-6) << name;
    }
  }
}

// Their weights are the run's, however a step is cut and over how many ranks.
TEST_F(SentenceModules, AreTrainedAndWritten) {
  const auto cut = [](const char* rows, const char* times) -> test::Overrides {
    return {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.save.every", "4"}};
  };
  for (const std::string model : {"gemma3", "modules"}) {
    SCOPED_TRACE(model);
    const std::string name = model == "gemma3" ? "linear.weight" : "linear.bias";
    const auto whole = run("whole " + model, model, "triplets", "", cut("12", "1")) / test::step_folder(4),
               four = run("four " + model, model, "triplets", "", cut("3", "4")) / test::step_folder(4),
               two = on_two_ranks("two " + model, model, "triplets", "", cut("3", "4")) / test::step_folder(4);
    test::Overrides sharded = cut("3", "4");
    sharded.emplace_back("parallel.fsdp", "2");
    const auto shares = on_two_ranks("shares " + model, model, "triplets", "", sharded) / test::step_folder(4);
    const Tensor made = weight(whole, "2_Dense", name);
    EXPECT_GT((made - weight(embedding_golden(model), "2_Dense", name)).abs().max().item<double>(), 1e-4);
    for (const auto& other : {four, two, shares})
      EXPECT_LT((made - weight(other, "2_Dense", name)).abs().max().item<double>(), 1e-6);
    const auto said = hub::read_sentence_folder(whole);
    ASSERT_TRUE(said);
    ASSERT_EQ(said->modules.size(), 2u);
    EXPECT_EQ(said->modules[1].path, model == "gemma3" ? "3_Dense" : "3_LayerNorm");
    EXPECT_EQ(said->normalize, model == "gemma3");
  }
}

TEST_F(SentenceModules, ARunGoesOnToTheBit) {
  const test::Overrides cut{{"trainer.batch_size", "3"},   {"trainer.accumulate", "2"},
                            {"trainer.steps", "6"},        {"trainer.save.every", "3"},
                            {"optimizer.type", "adamw"},   {"optimizer.learning_rate", "1e-3"}};
  const auto whole = run("whole", "gemma3", "pairs", "", cut);
  run("parts", "gemma3", "pairs", "", cut);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  const auto parts = run("parts", "gemma3", "pairs", "", cut, back);
  test::expect_equal_runs(whole, parts, 6);
  for (const char* module : {"2_Dense", "3_Dense"})
    EXPECT_TRUE(weight(whole / test::step_folder(6), module, "linear.weight")
                    .equal(weight(parts / test::step_folder(6), module, "linear.weight")));
}

// A run that begins with a checkpoint begins with what it had learnt.
TEST_F(SentenceModules, ACheckpointIsSuchAFolder) {
  const auto first = run("first", "modules", "pairs", "", {{"trainer.save.every", "4"}}) / test::step_folder(4);
  const auto again = run("again", "modules", "pairs", "", {{"model.path", first.string()}, {"trainer.steps", "1"}});
  const auto long_run = run("long", "modules", "pairs", "", {{"trainer.steps", "5"}});
  const auto reads_on = run("first rows", "modules", "pairs", "", {{"trainer.steps", "1"}});
  EXPECT_NE(values(again, "loss").at(0), values(reads_on, "loss").at(0));
  EXPECT_NEAR(values(again, "loss").at(0), values(long_run, "loss").at(4), 1e-5);
}

TEST_F(SentenceModules, OthersAreRefused) {
  const auto changed = [&](const char* file, const char* key, const nlohmann::json& value) {
    const std::filesystem::path to = folder_ / "changed";
    std::filesystem::remove_all(to);
    std::filesystem::copy(embedding_golden("modules"), to, std::filesystem::copy_options::recursive);
    nlohmann::json json = test::read_json(to / file);
    json[key] = value;
    std::ofstream(to / file) << json;
    return hub::read_sentence_folder(to);
  };
  EXPECT_HONE_ERROR(changed("2_Dense/config.json", "activation_function", "my.Own"), checkpoint,
                    "activation_function: got \"my.Own\"");
  EXPECT_HONE_ERROR(changed("2_Dense/config.json", "use_residual", true), checkpoint, "use_residual: got true");
  EXPECT_HONE_ERROR(changed("2_Dense/config.json", "module_input_name", "token_embeddings"), checkpoint,
                    "module_input_name: got \"token_embeddings\"");
  EXPECT_HONE_ERROR(changed("3_LayerNorm/config.json", "dimension", 7), checkpoint,
                    "it reads vectors of 7 numbers, expected 16");
}

}  // namespace
}  // namespace hone
