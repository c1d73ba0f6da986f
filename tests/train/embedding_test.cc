// Embedding models against sentence-transformers (tools/golden/golden_embedding.py), and what must hold without it.
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hone/evaluation.h"
#include "hone/hub.h"
#include "hub/sentence_files.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::embedding_golden;
using test::metrics_of;
using test::values;

class Embeddings : public test::EmbeddingRuns {
 protected:
  Embeddings() : EmbeddingRuns("embedding.json") {}
  static double furthest(const std::filesystem::path& a, const std::filesystem::path& b) {
    const auto one = test::read_tensors(a / test::step_folder(4) / "model.safetensors"),
               other = test::read_tensors(b / test::step_folder(4) / "model.safetensors");
    double most = 0;
    for (const auto& [name, value] : one) most = std::max(most, (value - other.at(name)).abs().max().item<double>());
    EXPECT_EQ(one.size(), other.size());
    return most;
  }
};

TEST_F(Embeddings, StepsOfEveryLossEqualSentenceTransformers) {
  for (const char* model : {"bert", "qwen3"}) expect_steps(model);
}

TEST_F(Embeddings, VectorsEqualSentenceTransformers) {
  for (const std::string model : {"bert", "qwen3"}) {
    SCOPED_TRACE(model);
    const std::string folder = embedding_golden(model).string();
    const auto said = *hub::read_sentence_folder(folder);
    const auto network = load_model(folder, Precision::fp32);
    const auto tokenizer = load_tokenizer(folder);
    const auto expect = [&](const std::string& name, const std::string& prompt, std::int64_t dims) {
      std::vector<HostRow> rows;
      for (const std::string text : golden_["texts"]) {
        const auto ids = tokenizer->encode_fitting({.first = prompt + text, .second = {}}, *said.max_length).ids;
        HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = std::vector<std::int64_t>(ids.size(), -100)};
        rows.push_back({std::move(doc)});
      }
      const c10::NoGradGuard no_grad;
      const Batch batch = to_batch(pad(rows, 0));
      Pass pass(batch);
      const Tensor whole_SD = nn::pooled(network->forward(batch, pass), batch, said.pooling);
      const Tensor made_SD = said.normalize ? nn::unit_rows(whole_SD, dims) : whole_SD.narrow(1, 0, dims);
      const nlohmann::json& expected = golden_[model][name];
      ASSERT_EQ(made_SD.size(0), std::ssize(expected));
      for (std::int64_t i = 0; i < made_SD.size(0); ++i)
        for (std::int64_t j = 0; j < dims; ++j)
          EXPECT_NEAR(made_SD[i][j].item<double>(), expected[i][j].get<double>(), 1e-5) << name << " " << i << " " << j;
    };
    expect("vectors", "", 24);
    expect("short_vectors", "", 8);
    if (model == "bert") expect("query_vectors", said.prompt({"query"}), 24);
  }
}

// All pairs of a step are each other's negatives, however it is cut.
TEST_F(Embeddings, AStepIsTheSameHoweverItIsCut) {
  for (const auto& [data, objective] :
       {std::pair<std::string, std::string>{"triplets", "temperature: 0.1, matryoshka_dims: [24, 8]"},
        {"scored", "loss_type: cosent"},
        {"triplets", "loss_type: triplet, margin: 1"}}) {
    SCOPED_TRACE(objective);
    const auto cut = [&](const char* rows, const char* times) -> test::Overrides {
      return {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.save.every", "4"}};
    };
    const std::string tag = std::to_string(objective.size());
    const auto whole = run("whole " + tag, "bert", data, objective, cut("12", "1")),
               four = run("four " + tag, "bert", data, objective, cut("3", "4")),
               two = on_two_ranks("two " + tag, "bert", data, objective, cut("3", "4"));
    test::Overrides sharded = cut("3", "4");
    sharded.emplace_back("parallel.fsdp", "2");
    const auto shares = on_two_ranks("shares " + tag, "bert", data, objective, sharded);
    EXPECT_LT(furthest(whole, four), 1e-6);
    EXPECT_LT(furthest(whole, two), 1e-6);
    EXPECT_LT(furthest(whole, shares), 1e-6);
    for (const char* key : {"loss", "grad_norm"})
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(values(whole, key).at(i), values(four, key).at(i), 2e-5) << key;
        EXPECT_NEAR(values(whole, key).at(i), values(two, key).at(i), 2e-5) << key;
      }
  }
}

// Both passes of a micro-batch drop the same: a step against the gradient lowers the loss by its length squared.
TEST_F(Embeddings, DropoutIsTheSameInBothPasses) {
  nlohmann::json config = test::read_json(embedding_golden("bert") / "config.json");
  config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.2;
  const std::filesystem::path base = folder_ / "base";
  std::filesystem::copy(embedding_golden("bert"), base, std::filesystem::copy_options::recursive);
  std::ofstream(base / "config.json") << config;
  const double rate = 1e-6;
  const auto once = [&](const std::string& name, const std::filesystem::path& model) {
    return run(name, "bert", "pairs", "",
               {{"model.path", model.string()},
                {"trainer.batch_size", "3"},
                {"trainer.accumulate", "4"},
                {"trainer.precision", "fp64"},
                {"trainer.steps", "1"},
                {"trainer.save.every", "1"},
                {"optimizer.learning_rate", fmt::format("{}", rate)}});
  };
  const auto before = once("before", base), after = once("after", before / test::step_folder(1));
  const double norm = values(before, "grad_norm").at(0);
  const double gained = values(before, "loss").at(0) - values(after, "loss").at(0);
  EXPECT_NEAR(gained / (rate * norm * norm), 1, 1e-2);
}

// A text that is another record's right answer, too, is no negative of it, nor is the answer to the same question.
TEST_F(Embeddings, EqualTextsAreNoNegatives) {
  const std::string twice = folder_
                                .write("twice.jsonl",
                                       "{\"query\": \"rain\", \"positive\": \"bread\"}\n"
                                       "{\"query\": \"moon\", \"positive\": \"bread\"}\n"
                                       "{\"query\": \"rain\", \"positive\": \"bees\"}\n")
                                .string();
  const std::string rain = "{\"query\": \"rain\", \"positive\": \"bread\"}\n";
  const std::string once = folder_.write("once.jsonl", rain + rain).string();
  for (const char* accumulate : {"1", "3"}) {
    const auto made = run(std::string("twice") + accumulate, "bert", "pairs", "",
                          {{"data.train", twice},
                           {"trainer.batch_size", accumulate == std::string("1") ? "3" : "1"},
                           {"trainer.accumulate", accumulate},
                           {"trainer.steps", "1"}});
    // Of the first all others are left out; the second and third have "bees" and "bread" against them.
    EXPECT_GT(values(made, "loss").at(0), 0.01);
    EXPECT_LT(values(made, "loss").at(0), 3 * std::log(3.0));
  }
  // With nothing but itself the probability is 1.
  const auto alone =
      run("alone", "bert", "pairs", "", {{"data.train", once}, {"trainer.batch_size", "2"}, {"trainer.steps", "1"}});
  EXPECT_NEAR(values(alone, "loss").at(0), 0, 1e-12);
}

TEST_F(Embeddings, WhatIsMeasuredIsAsTheEvaluatorsSay) {
  for (const std::string model : {"bert", "qwen3"})
    for (const std::string data : {"triplets", "scored"}) {
      SCOPED_TRACE(model + ", " + data);
      const test::Overrides overrides{{"data.eval.all", embedding_golden(data + ".jsonl").string()},
                                      {"trainer.eval_at_start", "true"},
                                      {"trainer.eval_batch_size", "5"}};
      const std::string objective = data == "scored" ? "loss_type: cosent" : "";
      const auto one = run(model + data, model, data, objective, overrides);
      test::Overrides shared = overrides;
      shared.insert(shared.end(), {{"trainer.accumulate", "2"}, {"trainer.batch_size", "3"}});
      const auto two = on_two_ranks(model + data + "2", model, data, objective, shared);
      for (const auto& [name, value] : golden_[model]["measured"].items()) {
        if ((name == "spearman_cosine") != (data == "scored")) continue;
        EXPECT_NEAR(values(one, "eval_" + name).at(0), value.get<double>(), 1e-6) << name;
        EXPECT_NEAR(values(two, "eval_" + name).at(0), value.get<double>(), 1e-6) << name << ", two ranks";
      }
    }
}

TEST_F(Embeddings, ARunGoesOnToTheBit) {
  const test::Overrides cut{{"trainer.batch_size", "3"},
                            {"trainer.accumulate", "2"},
                            {"trainer.steps", "6"},
                            {"trainer.save.every", "3"},
                            {"optimizer.type", "adamw"}};
  const auto whole = run("whole", "bert", "pairs", "", cut);
  run("parts", "bert", "pairs", "", cut);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  const auto parts = run("parts", "bert", "pairs", "", cut, back);
  test::expect_equal_runs(whole, parts, 6);
}

TEST_F(Embeddings, CheckpointsSayHowTheyEmbed) {
  const auto made = run("said", "bert", "pairs", "", {{"trainer.save.every", "4"}});
  const auto folder = hub::read_sentence_folder(made / test::step_folder(4));
  ASSERT_TRUE(folder);
  EXPECT_EQ(folder->pooling, nn::Pooling::mean);
  EXPECT_TRUE(folder->normalize);
  EXPECT_EQ(folder->max_length, 48);
  EXPECT_EQ(folder->prompt({"query"}), "ask: ");
  EXPECT_EQ(folder->prompt({"document"}), "say: ");
  const auto other = run("other", "qwen3", "pairs", "pooling: mean, normalize: true, query_prompt: 'Q '",
                         {{"trainer.save.every", "4"}});
  const auto said = hub::read_sentence_folder(other / test::step_folder(4));
  ASSERT_TRUE(said);
  EXPECT_EQ(said->pooling, nn::Pooling::mean);
  EXPECT_TRUE(said->normalize);
  EXPECT_EQ(said->prompt({"query"}), "Q ");
  EXPECT_EQ(said->prompts.count("document"), 0u);
}

TEST_F(Embeddings, CheckpointsKeepWhatTheirFolderSaysBesides) {
  constexpr const char* kPrompts = "config_sentence_transformers.json";
  const std::filesystem::path base = folder_ / "base";
  std::filesystem::copy(embedding_golden("bert"), base, std::filesystem::copy_options::recursive);
  nlohmann::json said = test::read_json(base / kPrompts);
  said["prompts"]["sts"] = "s: ";
  said["default_prompt_name"] = "sts", said["similarity_fn_name"] = "dot", said["truncate_dim"] = 8;
  std::ofstream(base / kPrompts) << said;
  const test::Overrides overrides{{"model.path", base.string()}, {"trainer.save.every", "2"}};
  const auto made = run("kept", "bert", "pairs", "", overrides);
  EXPECT_EQ(test::read_json(made / test::step_folder(4) / kPrompts), said);
  TrainOptions back = test::quiet_options();
  back.resume = "2";
  EXPECT_EQ(test::read_json(run("kept", "bert", "pairs", "", overrides, back) / test::step_folder(4) / kPrompts), said);
  const auto asked = run("asked", "bert", "pairs", "query_prompt: 'Q '", overrides);
  said["prompts"]["query"] = "Q ";
  EXPECT_EQ(test::read_json(asked / test::step_folder(4) / kPrompts), said);
}

TEST_F(Embeddings, AnAdapterIsOneOfFeatures) {
  const auto made =
      run("lora", "qwen3", "triplets", "", {{"adapter", "{type: lora, rank: 4}"}, {"trainer.save.every", "4"}});
  const auto config = test::read_json(made / test::step_folder(4) / "adapter_config.json");
  EXPECT_EQ(config["task_type"], "FEATURE_EXTRACTION");
  EXPECT_TRUE(hub::read_sentence_folder(made / test::step_folder(4)));
}

TEST_F(Embeddings, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(
      run("a", "bert", "scored"), data,
      "scored.jsonl:1: has a score, which is not learnt; objective.loss_type is multiple_negatives_ranking");
  EXPECT_HONE_ERROR(run("b", "bert", "pairs", "loss_type: cosent"), data,
                    "has no score; objective.loss_type is cosent");
  EXPECT_HONE_ERROR(run("c", "bert", "pairs", "matryoshka_dims: [25]"), config,
                    "objective.matryoshka_dims: got 25, expected at most 24");
  EXPECT_HONE_ERROR(run("d", "bert", "pairs", "matryoshka_dims: [8], matryoshka_weights: [1, 2]"), config,
                    "expected as many");
  EXPECT_HONE_ERROR(run("e", "bert", "pairs", "", {{"trainer.batch_size", "1"}}), config, "expected at least 2");
  EXPECT_HONE_ERROR(run("f", "bert", "pairs", "loss_type: triplet"), data,
                    "has no negative; objective.loss_type is triplet");
  EXPECT_HONE_ERROR(run("g", "bert", "pairs", "margin: 1"), config, "objective.margin: only with loss_type triplet");
  EXPECT_HONE_ERROR(run("h", "bert", "scored", "loss_type: cosent, distance: euclidean"), config,
                    "objective.distance: only with loss_type triplet");
  for (const char* loss : {"triplet", "cosine_similarity"})
    EXPECT_HONE_ERROR(run("i", "bert", "triplets", fmt::format("loss_type: {}, temperature: 0.1", loss)), config,
                      "objective.temperature: only with");
  EXPECT_HONE_ERROR(run("j", "bert", "pairs", "matryoshka_dims: [8, 8]"), config, "got one of them twice");
}

// Of whatever record of whatever set, before the first step.
TEST_F(Embeddings, RecordsOfAnotherLossAreRefusedBeforeTheFirstStep) {
  const std::string plain = R"({"query": "a", "positive": "b"})", scored = R"({"query": "a", "positive": "b", "score": 2})",
                    triplet = R"({"query": "a", "positive": "b", "negative": "c"})";
  const auto file = [&](const std::string& name, const std::string& usual, const std::string& last) {
    std::string lines;
    for (int i = 0; i < 200; ++i) lines += usual + "\n";
    return folder_.write(name, lines + last + "\n").string();
  };
  const auto refused = [&](const std::string& objective, const std::string& usual, const std::string& last,
                           const std::string& fact) {
    for (const char* set : {"data.train", "data.eval.some", "data.test.some"}) {
      SCOPED_TRACE(set);
      test::Overrides overrides{{set, file("other.jsonl", usual, last)}};
      if (set != std::string("data.train")) overrides.emplace_back("data.train", file("usual.jsonl", usual, usual));
      EXPECT_HONE_ERROR(run("none", "bert", "pairs", objective, overrides), data, "other.jsonl:201: " + fact);
      EXPECT_FALSE(std::filesystem::exists(folder_ / "none" / "metrics.jsonl"));
    }
  };
  refused("", plain, scored,
          "has a score, which is not learnt; objective.loss_type is multiple_negatives_ranking\n  hint: cosent, angle "
          "and cosine_similarity learn it");
  refused("loss_type: triplet", triplet, plain, "has no negative");
  refused("loss_type: triplet", triplet, scored, "has a score, which is not learnt");
  refused("loss_type: cosent", scored, plain, "has no score");
  refused("loss_type: cosine_similarity", R"({"query": "a", "positive": "b", "score": -1})", scored,
          "has a score of 2, and cosines are from -1 to 1");
}

TEST_F(Embeddings, WhereAllScoresAreEqualThereIsNoCorrelation) {
  const std::string same = R"({"query": "a", "positive": "b", "score": 1})";
  const auto made = run("same", "bert", "scored", "loss_type: cosent",
                        {{"data.eval.same", folder_.write("same.jsonl", same + "\n" + same + "\n").string()},
                         {"trainer.eval_at_start", "true"}});
  EXPECT_TRUE(values(made, "eval_spearman_cosine").empty());
  EXPECT_FALSE(values(made, "eval_loss").empty());
}

}  // namespace
}  // namespace hone
