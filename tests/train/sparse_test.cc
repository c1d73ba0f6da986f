// Sparse encoders against sentence-transformers (tools/golden/golden_sparse.py), and what must hold without it.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hone/evaluation.h"
#include "hone/hub.h"
#include "hone/trainer.h"
#include "hub/sentence_files.h"
#include "nn/splade.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::embedding_golden;
using test::values;

std::filesystem::path sparse_golden(const std::string& name) { return test::golden("train/sparse") / name; }

constexpr const char* kWeights = "document_regularizer_weight: 0.1, query_regularizer_weight: 0.05";

constexpr const char* kBert = "../sparse/bert";

class SparseEncoders : public test::EmbeddingRuns {
 protected:
  SparseEncoders() : EmbeddingRuns("../sparse/sparse.json", "sparse_embedding") {}
  // Of the golden's texts, in one batch. logits: as many at once.
  Tensor vectors(const std::filesystem::path& folder, const nn::SpladeForm& form, const std::string& prompt = "",
                 std::int64_t logits = 1 << 24) {
    const auto network = load_model(folder.string(), Precision::fp32);
    const auto tokenizer = load_tokenizer(folder.string());
    std::vector<HostRow> rows;
    for (const std::string text : golden_["texts"]) {
      const auto ids = tokenizer->encode_fitting({.first = prompt + text, .second = {}}, 48).ids;
      HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = std::vector<std::int64_t>(ids.size(), -100)};
      rows.push_back({std::move(doc)});
    }
    const c10::NoGradGuard no_grad;
    const Batch batch = to_batch(pad(rows, 0));
    Pass pass(batch);
    return nn::splade(*network, network->forward(batch, pass), batch, form, pass, logits);
  }
  static void expect_rows(const Tensor& made, const nlohmann::json& expected) {
    ASSERT_EQ(made.size(0), std::ssize(expected));
    for (std::int64_t i = 0; i < made.size(0); ++i)
      for (std::int64_t j = 0; j < made.size(1); ++j)
        ASSERT_NEAR(made[i][j].item<double>(), expected[i][j].get<double>(), 1e-5) << i << " " << j;
  }
};

TEST_F(SparseEncoders, VectorsEqualSentenceTransformers) {
  const std::filesystem::path folder = sparse_golden("bert");
  const auto said = *hub::read_sentence_folder(folder);
  ASSERT_TRUE(said.splade);
  EXPECT_EQ(*said.splade, nn::SpladeForm());
  EXPECT_EQ(said.similarity, "dot");
  for (const auto strategy : {nn::SpladeStrategy::max, nn::SpladeStrategy::sum})
    for (const auto activation : {nn::SpladeActivation::relu, nn::SpladeActivation::log1p_relu}) {
      const std::string name = config::Values<nn::SpladeStrategy>::write(strategy).text() + " " +
                               config::Values<nn::SpladeActivation>::write(activation).text();
      SCOPED_TRACE(name);
      expect_rows(vectors(folder, {strategy, activation}), golden_["vectors"][name]);
    }
  expect_rows(vectors(folder, {}, said.prompt({"query"})), golden_["query"]);
}

TEST_F(SparseEncoders, TheLargestWeightsEqualSentenceTransformers) {
  const auto tokenizer = load_tokenizer(sparse_golden("bert").string());
  const Tensor made = nn::largest(vectors(sparse_golden("bert"), {}), 5);
  for (std::size_t i = 0; i < golden_["largest"].size(); ++i) {
    EXPECT_EQ(made[static_cast<std::int64_t>(i)].ne(0).sum().item<std::int64_t>(), 5);
    for (const auto& one : golden_["largest"][i])
      EXPECT_NEAR(made[static_cast<std::int64_t>(i)][*tokenizer->id_of(one[0].get<std::string>())].item<double>(),
                  one[1].get<double>(), 1e-5);
  }
}

// Texts are cut to pieces where there is room for the logits of few tokens, or of one.
TEST_F(SparseEncoders, VectorsAreTheSameHoweverManyLogitsAreHeld) {
  for (const auto strategy : {nn::SpladeStrategy::max, nn::SpladeStrategy::sum}) {
    const nn::SpladeForm form{strategy, nn::SpladeActivation::relu};
    const Tensor whole = vectors(sparse_golden("bert"), form);
    for (const std::int64_t logits : {1, 83 * 3, 83 * 20, 83 * 60})
      EXPECT_LT((vectors(sparse_golden("bert"), form, "", logits) - whole).abs().max().item<double>(),
                1e-6 * whole.max().item<double>())
          << logits;
  }
}

TEST_F(SparseEncoders, GradientsAreTheSameHoweverManyLogitsAreHeld) {
  const auto gradients = [&](std::int64_t logits, nn::SpladeStrategy strategy) {
    const auto network = load_model(sparse_golden("bert").string(), Precision::fp64);
    std::vector<HostRow> rows;
    for (const std::int64_t length : {9, 4, 17}) {
      HostDoc doc{.ids = {}, .targets = std::vector<std::int64_t>(static_cast<std::size_t>(length), -100)};
      for (std::int64_t i = 0; i < length; ++i) doc.ids.push_back(static_cast<std::int32_t>(5 + (7 * i + length) % 70));
      rows.push_back({std::move(doc)});
    }
    const Batch batch = to_batch(pad(rows, 0));
    Pass pass(batch);
    std::map<std::string, Tensor> all;
    network->each_weight([](const std::string&, Weight& weight) { weight.use().set_requires_grad(true); });
    const Output output = network->forward(batch, pass);
    nn::splade(*network, output, batch, {strategy, nn::SpladeActivation::log1p_relu}, pass, logits)
        .square()
        .sum()
        .backward();
    network->each_weight([&](const std::string& name, Weight& weight) { all[name] = weight.use().grad(); });
    return all;
  };
  for (const auto strategy : {nn::SpladeStrategy::max, nn::SpladeStrategy::sum}) {
    const auto whole = gradients(1 << 24, strategy), few = gradients(83 * 5, strategy);
    for (const auto& [name, value] : whole) {
      ASSERT_EQ(value.defined(), few.at(name).defined()) << name;
      if (value.defined()) {
        EXPECT_LT((value - few.at(name)).abs().max().item<double>(), 1e-10) << name;
      }
    }
    EXPECT_GT(whole.at("cls.predictions.bias").abs().max().item<double>(), 0.1);
  }
}

TEST_F(SparseEncoders, StepsOfEveryLossEqualSentenceTransformers) {
  for (const auto& [name, setting] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    expect_logged(run(name, kBert, setting["data"], test::options_of(setting["options"])), golden_["runs"][name]);
  }
}

// The regularizers are of a step's texts, as the loss is.
TEST_F(SparseEncoders, AStepIsTheSameHoweverItIsCut) {
  for (const std::string& options : {std::string(kWeights), std::string(kWeights) + ", loss_type: triplet",
                                     std::string(kWeights) + ", pooling_strategy: sum, temperature: 20"}) {
    SCOPED_TRACE(options);
    expect_same_however_cut(std::to_string(options.size()), kBert, "triplets", options);
  }
}

TEST_F(SparseEncoders, WhatIsMeasuredIsAsTheEvaluatorsSay) {
  for (const std::string data : {"triplets", "scored"}) {
    SCOPED_TRACE(data);
    const bool scored = data == "scored";
    const test::Overrides overrides{{"data.eval.all", embedding_golden(data + ".jsonl").string()},
                                    {"trainer.eval_at_start", "true"},
                                    {"trainer.eval_batch_size", "5"}};
    const std::string objective = scored ? "loss_type: cosent" : "";
    const auto one = run(data, kBert, data, objective, overrides);
    test::Overrides shared = overrides;
    shared.insert(shared.end(), {{"trainer.accumulate", "2"}, {"trainer.batch_size", "3"}});
    const auto two = on_two_ranks(data + "2", kBert, data, objective, shared);
    for (const auto& [name, value] : golden_["measured"].items()) {
      const bool of_scores = name == "active_dims" || name == "sparsity_ratio" || name == "spearman_dot";
      if (of_scores != scored || name == "spearman_dot") continue;  // a run's own are of cosines; see hone eval
      EXPECT_NEAR(values(one, "eval_" + name).at(0), value.get<double>(), 2e-5) << name;
      EXPECT_NEAR(values(two, "eval_" + name).at(0), value.get<double>(), 2e-5) << name << ", two ranks";
    }
  }
}

TEST_F(SparseEncoders, CheckpointsAreSparseEncoders) {
  const test::Overrides saved{{"trainer.save.every", "4"}};
  const auto made = run("said", kBert, "pairs", "query_prompt: 'Q '", saved) / test::step_folder(4);
  const auto folder = hub::read_sentence_folder(made);
  ASSERT_TRUE(folder && folder->splade);
  EXPECT_EQ(*folder->splade, nn::SpladeForm());
  EXPECT_EQ(folder->max_length, 48);
  EXPECT_EQ(folder->prompt({"query"}), "Q ");
  EXPECT_EQ(folder->prompt({"document"}), "say: ");
  EXPECT_EQ(folder->similarity, "dot");
  EXPECT_EQ(test::read_json(made / "config_sentence_transformers.json")["model_type"], "SparseEncoder");
  EXPECT_EQ(test::read_json(made / "config.json")["architectures"][0], "BertForMaskedLM");
  const std::string options = "loss_type: cosent, pooling_strategy: sum, activation_function: log1p_relu";
  const auto other = run("other", kBert, "scored", options, saved) / test::step_folder(4);
  const auto said = hub::read_sentence_folder(other);
  ASSERT_TRUE(said && said->splade);
  EXPECT_EQ(*said->splade, (nn::SpladeForm{nn::SpladeStrategy::sum, nn::SpladeActivation::log1p_relu}));
  EXPECT_EQ(said->similarity, "cosine");
}

TEST_F(SparseEncoders, RegularizersRise) {
  const std::string always = kWeights;
  const auto whole = run("whole", kBert, "pairs", always);
  const double all = values(whole, "document_regularizer_loss").at(0);
  for (const auto& [schedule, share] : {std::pair{"linear", 0.25}, {"quadratic", 0.0625}}) {
    SCOPED_TRACE(schedule);
    const auto made = run(schedule, kBert, "pairs",
                          always + ", regularizer_warmup_steps: 4, regularizer_schedule: " + schedule,
                          {{"optimizer.learning_rate", "0"}});
    EXPECT_EQ(values(made, "document_regularizer_loss").at(0), 0);
    const double first = values(run("still", kBert, "pairs", always, {{"optimizer.learning_rate", "0"}}),
                                "document_regularizer_loss").at(1);
    EXPECT_NEAR(values(made, "document_regularizer_loss").at(1), share * first, 1e-6 * all);
  }
}

TEST_F(SparseEncoders, ARunGoesOnToTheBit) {
  const test::Overrides cut{{"trainer.batch_size", "3"},  {"trainer.accumulate", "2"}, {"trainer.steps", "6"},
                            {"trainer.save.every", "3"},  {"optimizer.type", "adamw"},
                            {"objective.regularizer_warmup_steps", "5"}};
  const auto whole = run("whole", kBert, "pairs", kWeights, cut);
  run("parts", kBert, "pairs", kWeights, cut);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  test::expect_equal_runs(whole, run("parts", kBert, "pairs", kWeights, cut, back), 6);
}

// Of the whole model with its head, by the names of transformers' class for masked tokens.
TEST_F(SparseEncoders, AnAdapterIsOfTheModelWithItsHead) {
  const test::Overrides overrides{{"adapter", "{type: lora, rank: 4}"}, {"trainer.save.every", "4"}};
  const auto made = run("lora", kBert, "triplets", "", overrides) / test::step_folder(4);
  EXPECT_FALSE(test::read_json(made / "adapter_config.json").value("task_type", nlohmann::json()) ==
               "FEATURE_EXTRACTION");
  for (const auto& [name, value] : test::read_tensors(made / "adapter_model.safetensors"))
    EXPECT_TRUE(name.starts_with("base_model.model.bert.") || name.starts_with("base_model.model.cls.")) << name;
  const auto folder = hub::read_sentence_folder(made);
  EXPECT_TRUE(folder && folder->splade);
}

TEST_F(SparseEncoders, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(run("a", kBert, "scored"), data, "has a score, which is not learnt");
  EXPECT_HONE_ERROR(run("b", kBert, "pairs", "loss_type: gist"), config, "got gist, which is of dense vectors");
  const std::string alone = "use_document_regularizer_only: true, query_regularizer_weight: 1";
  EXPECT_HONE_ERROR(run("c", kBert, "pairs", alone), config, "not with use_document_regularizer_only");
  EXPECT_HONE_ERROR(run("d", "qwen3", "pairs"), config, "head");
  EXPECT_HONE_ERROR(run("e", kBert, "pairs", "partition_mode: per_direction"), config, "expected several");
  EXPECT_HONE_ERROR(run("f", kBert, "pairs", "hardness_mode: hard_negatives"), config, "goes with hardness_mode");
}

}  // namespace
}  // namespace hone
