// Late-interaction models against sentence-transformers (tools/golden/golden_late_interaction.py), and what must hold
// without it.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "data/token_vector_texts.h"
#include "hone/hub.h"
#include "hone/trainer.h"
#include "hub/sentence_files.h"
#include "nn/token_vectors.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::embedding_golden;
using test::values;

std::filesystem::path late_golden(const std::string& name) { return test::golden("train/late_interaction") / name; }

constexpr const char* kTokenBert = "../late_interaction/bert";

class LateInteraction : public test::EmbeddingRuns {
 protected:
  LateInteraction() : EmbeddingRuns("../late_interaction/late_interaction.json", "late_interaction") {}
  // Of the golden's texts, in one batch.
  nn::TokenVectors vectors(const std::string& name, Role role, bool packed = false) {
    const std::filesystem::path folder = late_golden(name);
    const auto said = *hub::read_sentence_folder(folder);
    const auto network = load_model(folder.string(), Precision::fp32);
    hub::load_vector_modules(*network, folder, Precision::fp32);
    const auto tokenizer = load_tokenizer(folder.string());
    Dataset::Options how;
    how.max_length = 48, how.token_vectors = said.token_vectors;
    const auto texts = data::token_vector_texts(how, *tokenizer);
    std::vector<HostRow> rows;
    for (const std::string text : golden_["texts"]) {
      const std::string prompt = said.prompt({role == Role::query ? "query" : "document"});
      auto ids = tokenizer->encode_fitting({.first = prompt + text, .second = {}}, texts->most(role, 48)).ids;
      const std::int64_t real = std::ssize(ids);
      texts->expand(role, ids);
      HostDoc doc{.ids = {ids.begin(), ids.end()}, .targets = {}, .role = role};
      doc.targets.assign(ids.size(), -100);
      texts->put(real, doc);
      if (packed && !rows.empty()) rows.back().push_back(std::move(doc));
      else rows.push_back({std::move(doc)});
    }
    const c10::NoGradGuard no_grad;
    const Batch batch = to_batch(pad(rows, 0));
    Pass pass(batch);
    return nn::token_vectors(*network, network->forward(batch, pass), batch, said.normalize, pass);
  }
  static void expect_texts(const nn::TokenVectors& made, const nlohmann::json& expected) {
    ASSERT_EQ(made.vector_SLD.size(0), std::ssize(expected));
    for (std::int64_t i = 0; i < made.vector_SLD.size(0); ++i) {
      const nlohmann::json& text = expected[static_cast<std::size_t>(i)];
      ASSERT_EQ(made.counts_SL[i].sum().item<double>(), static_cast<double>(text.size())) << i;
      for (std::size_t t = 0; t < text.size(); ++t)
        for (std::size_t d = 0; d < text[t].size(); ++d)
          ASSERT_NEAR(made.vector_SLD[i][static_cast<std::int64_t>(t)][static_cast<std::int64_t>(d)].item<double>(),
                      text[t][d].get<double>(), 1e-5)
              << i << " " << t << " " << d;
    }
  }
  static void expect_rows(const Tensor& made, const nlohmann::json& expected) {
    for (std::int64_t i = 0; i < made.size(0); ++i)
      for (std::int64_t j = 0; j < made.size(1); ++j)
        EXPECT_NEAR(made[i][j].item<double>(),
                    expected[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)].get<double>(), 5e-5)
            << i << " " << j;
  }
};

TEST_F(LateInteraction, AFolderSaysHowTextsAreRead) {
  const auto bert = *hub::read_sentence_folder(late_golden("bert"));
  ASSERT_TRUE(bert.token_vectors);
  EXPECT_EQ(bert.token_vectors->dimension, 8);
  EXPECT_EQ(bert.token_vectors->document_length, 24);
  EXPECT_EQ(bert.token_vectors->expansion_length, 20);
  EXPECT_TRUE(bert.token_vectors->cuts_queries);
  EXPECT_FALSE(bert.token_vectors->attend);
  EXPECT_EQ(bert.token_vectors->skiplist_words.size(), 32U);
  EXPECT_TRUE(bert.normalize);
  EXPECT_EQ(bert.similarity, "maxsim");
  EXPECT_EQ(bert.prompt({"query"}), "ask: ");
  const auto modern = *hub::read_sentence_folder(late_golden("modernbert"));
  EXPECT_EQ(modern.token_vectors->query_length, 26);
  EXPECT_FALSE(modern.token_vectors->cuts_queries);
  EXPECT_TRUE(modern.token_vectors->attend);
  EXPECT_TRUE(modern.token_vectors->skips_in_queries);
}

TEST_F(LateInteraction, VectorsAndScoresEqualSentenceTransformers) {
  for (const std::string name : {"bert", "modernbert"}) {
    SCOPED_TRACE(name);
    const nlohmann::json& expected = golden_["embedded"][name];
    const nn::TokenVectors query = vectors(name, Role::query), document = vectors(name, Role::chosen);
    expect_texts(query, expected["query"]);
    expect_texts(document, expected["document"]);
    expect_rows(nn::max_similarity(query, document, nn::TokenSimilarity::maxsim), expected["scores"]);
    expect_rows(nn::max_similarity(query, document, nn::TokenSimilarity::meanmaxsim), expected["mean_scores"]);
    const Tensor one_by_one = nn::max_similarity(query, document, nn::TokenSimilarity::maxsim, /*at_once=*/1);
    expect_rows(one_by_one, expected["scores"]);
    const Tensor pairs = nn::max_similarity_pairwise(query, document, nn::TokenSimilarity::maxsim);
    EXPECT_LT((pairs - one_by_one.diagonal()).abs().max().item<double>(), 1e-5);
  }
}

TEST_F(LateInteraction, StepsOfEveryLossEqualSentenceTransformers) {
  for (const auto& [name, setting] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    const std::string model = "../late_interaction/" + setting["model"].get<std::string>();
    expect_logged(run(name, model, setting["data"], test::options_of(setting["options"])), golden_["runs"][name]);
  }
}

// Texts of other micro-batches and ranks are wider, or not as wide.
TEST_F(LateInteraction, AStepIsTheSameHoweverItIsCut) {
  expect_same_however_cut("ranking", kTokenBert, "triplets", "");
  expect_same_however_cut("mean", kTokenBert, "triplets", "similarity_fn_name: meanmaxsim, query_expansion: none");
  expect_same_however_cut("distill", kTokenBert, "taught", "loss_type: distill_kl_div");
}

TEST_F(LateInteraction, TextsOfOneRowDoNotSeeEachOther) {
  for (const std::string name : {"bert", "modernbert"}) {
    const nn::TokenVectors alone = vectors(name, Role::query), together = vectors(name, Role::query, /*packed=*/true);
    EXPECT_LT((alone.vector_SLD - together.vector_SLD).abs().max().item<double>(), 1e-5) << name;
    EXPECT_TRUE(alone.counts_SL.equal(together.counts_SL)) << name;
  }
}

TEST_F(LateInteraction, ARunGoesOnToTheBit) {
  const test::Overrides cut{{"trainer.batch_size", "3"}, {"trainer.accumulate", "2"}, {"trainer.steps", "6"},
                            {"trainer.save.every", "3"}, {"optimizer.type", "adamw"}};
  const auto whole = run("whole", "bert", "pairs", "embedding_dimension: 6", cut);
  run("parts", "bert", "pairs", "embedding_dimension: 6", cut);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  test::expect_equal_runs(whole, run("parts", "bert", "pairs", "embedding_dimension: 6", cut, back), 6);
}

TEST_F(LateInteraction, CheckpointsSayWhatTheirSourceSays) {
  for (const std::string name : {"bert", "modernbert"}) {
    const auto made = run("said " + name, "../late_interaction/" + name, "pairs",
                          "query_prompt: 'Q ', similarity_fn_name: meanmaxsim", {{"trainer.save.every", "4"}}) /
                      test::step_folder(4);
    const auto before = *hub::read_sentence_folder(late_golden(name)), after = *hub::read_sentence_folder(made);
    EXPECT_EQ(*after.token_vectors, *before.token_vectors) << name;
    EXPECT_EQ(after.normalize, before.normalize);
    EXPECT_EQ(after.max_length, 48);
    EXPECT_EQ(after.prompt({"query"}), "Q ");
    EXPECT_EQ(after.prompt({"document"}), "say: ");
    EXPECT_EQ(after.similarity, "meanmaxsim");
    EXPECT_EQ(test::read_json(made / "1_Dense" / "config.json")["module_input_name"], "token_embeddings");
  }
}

TEST_F(LateInteraction, AnAdapterIsTrainedWithItsProjection) {
  const auto made = run("lora", kTokenBert, "triplets", "",
                        {{"adapter", "{type: lora, rank: 4}"}, {"trainer.save.every", "4"}}) /
                    test::step_folder(4);
  const auto said = hub::read_sentence_folder(made);
  ASSERT_TRUE(said && said->token_vectors);
  const auto before = test::read_tensors(late_golden("bert") / "1_Dense" / "model.safetensors"),
             after = test::read_tensors(made / "1_Dense" / "model.safetensors");
  EXPECT_GT((before.at("linear.weight") - after.at("linear.weight")).abs().max().item<double>(), 0);
}

TEST_F(LateInteraction, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(run("a", kTokenBert, "scored"), data, "has a score, which is not learnt");
  EXPECT_HONE_ERROR(run("b", kTokenBert, "pairs", "loss_type: margin_mse"), data, "has no negative");
  EXPECT_HONE_ERROR(run("c", kTokenBert, "pairs", "embedding_dimension: 5"), config, "got 5, expected 8");
  EXPECT_HONE_ERROR(run("d", kTokenBert, "pairs", "query_expansion: none, query_expansion_length: 4"), config,
                    "only with query_expansion fixed or min");
  EXPECT_HONE_ERROR(run("e", kTokenBert, "pairs", "query_expansion: fixed, query_expansion_length: 49"), config,
                    "got 49, expected at most 48");
  EXPECT_HONE_ERROR(run("f", kTokenBert, "pairs", "query_expansion: fixed, query_expansion_token: '[Q]'"), config,
                    "no token \"[Q]\"");
  EXPECT_HONE_ERROR(run("g", "qwen3", "pairs", "query_expansion: min"), config, "expected query_expansion_attend");
  EXPECT_HONE_ERROR(run("h", "../late_interaction/modernbert", "pairs",
                        "query_expansion: fixed, query_expansion_length: 40"),
                    config, "layers see");
}

TEST_F(LateInteraction, WhatIsMeasuredIsAsTheEvaluatorsSay) {
  for (const std::string name : {"bert", "modernbert"}) {
    SCOPED_TRACE(name);
    const test::Overrides overrides{{"data.eval.all", embedding_golden("triplets.jsonl").string()},
                                    {"trainer.eval_at_start", "true"},
                                    {"trainer.eval_batch_size", "5"}};
    const auto made = run("measured " + name, "../late_interaction/" + name, "triplets", "", overrides);
    for (const auto& [key, value] : golden_["measured"][name].items())
      EXPECT_NEAR(values(made, "eval_" + key).at(0), value.get<double>(), 1e-6) << key;
  }
}

// A model that has no projection is given one, and its folder says how it is used.
TEST_F(LateInteraction, AModelWithoutAProjectionIsGivenOne) {
  const auto made = run("fresh", "bert", "pairs",
                        "embedding_dimension: 6, query_expansion: min, query_expansion_length: 10, "
                        "skiplist_words: [\"?\"], document_length: 20",
                        {{"trainer.save.every", "4"}});
  const auto said = *hub::read_sentence_folder(made / test::step_folder(4));
  ASSERT_TRUE(said.token_vectors);
  EXPECT_EQ(said.token_vectors->dimension, 6);
  EXPECT_EQ(said.token_vectors->expansion_length, 10);
  EXPECT_FALSE(said.token_vectors->cuts_queries);
  EXPECT_EQ(said.token_vectors->skiplist_words, std::vector<std::string>{"?"});
  EXPECT_EQ(said.token_vectors->document_length, 20);
  ASSERT_EQ(said.modules.size(), 1U);
  EXPECT_EQ(said.modules[0].form.out, 6);
  const auto tensors = test::read_tensors(made / test::step_folder(4) / "1_Dense" / "model.safetensors");
  EXPECT_GT(tensors.at("linear.weight").abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace hone
