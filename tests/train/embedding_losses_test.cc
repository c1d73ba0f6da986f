// Further losses of embedding models against sentence-transformers (tools/golden/golden_sparse.py).
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::embedding_golden;

class EmbeddingLosses : public test::EmbeddingRuns {
 protected:
  EmbeddingLosses() : EmbeddingRuns("losses.json") {}
  static std::string guide() { return "guide: " + embedding_golden("bert").string(); }
};

// The guide is the model as it was.
TEST_F(EmbeddingLosses, StepsEqualSentenceTransformers) {
  for (const auto& [name, setting] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    std::string objective = test::options_of(setting["options"]);
    if (name.starts_with("gist")) objective += ", " + guide();
    expect_logged(run(name, "bert", setting["data"], objective), golden_["runs"][name]);
  }
}

TEST_F(EmbeddingLosses, AStepIsTheSameHoweverItIsCut) {
  int tag = 0;
  for (const std::string& objective :
       {std::string("directions: [query_to_doc, doc_to_query, doc_to_doc], hardness_mode: all_negatives, "
                    "hardness_strength: 2, temperature: 0.2"),
        "loss_type: gist, temperature: 0.1, margin: 0.005, " + guide()}) {
    SCOPED_TRACE(objective);
    expect_same_however_cut(std::to_string(++tag), "bert", "triplets", objective);
  }
}

// What a guide masks of held-out data it masks of each batch of them.
TEST_F(EmbeddingLosses, AGuideIsAskedInEvaluations) {
  const auto made = run("measured", "bert", "triplets", "loss_type: gist, " + guide(),
                        {{"data.eval.all", embedding_golden("triplets.jsonl").string()},
                         {"trainer.eval_at_start", "true"},
                         {"trainer.eval_batch_size", "6"},
                         {"optimizer.learning_rate", "0"}});
  const auto learnt = test::values(made, "loss");
  EXPECT_NEAR(test::values(made, "eval_loss").at(0), (learnt.at(0) + learnt.at(1)) / 2, 1e-5);
}

TEST_F(EmbeddingLosses, WhatCannotBeIsRefused) {
  const auto refuse = [&](const std::string& data, const std::string& objective, const std::string& fact) {
    EXPECT_HONE_ERROR(run("refused", "bert", data, objective), config, fact);
  };
  refuse("pairs", "loss_type: gist", "loss_type gist asks a guide");
  refuse("pairs", guide(), "objective.guide: only with loss_type gist");
  refuse("pairs", "contrast_anchors: false", "objective.contrast_anchors: only with loss_type gist");
  refuse("pairs", "directions: [doc_to_query]", "expected query_to_doc among them");
  refuse("pairs", "directions: [query_to_doc, query_to_doc]", "got one of them twice");
  refuse("pairs", "partition_mode: per_direction", "got per_direction with one of directions");
  refuse("pairs", "directions: [query_to_doc, doc_to_doc], partition_mode: per_direction", "expected joint");
  refuse("pairs", "hardness_strength: 2", "goes with hardness_mode");
  refuse("scored", "loss_type: angle, margin: 1", "objective.margin: only with loss_type triplet, gist");
  refuse("pairs", "loss_type: gist, guide: " + embedding_golden("modules").string(), "Dense or LayerNorm");
  refuse("pairs", "loss_type: gist, guide: " + embedding_golden("qwen3").string(), "tokenizer");
  const std::filesystem::path bare = folder_ / "bare";
  std::filesystem::copy(embedding_golden("bert"), bare, std::filesystem::copy_options::recursive);
  std::filesystem::remove(bare / "modules.json");
  refuse("pairs", "loss_type: gist, guide: " + bare.string(), "there is no modules.json, expected the folder of an");
}

// Some records without negatives may be among those that have some.
TEST_F(EmbeddingLosses, HardNegativesHaveToBeThere) {
  const std::string hard = "hardness_mode: hard_negatives, hardness_strength: 2";
  EXPECT_HONE_ERROR(run("none", "bert", "pairs", hard), data, "no record of data.train has a negative");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none" / "metrics.jsonl"));
  run("pairs", "bert", "pairs", "hardness_mode: all_negatives, hardness_strength: 2");
  std::string lines = test::read_text(embedding_golden("pairs.jsonl"));
  lines += R"({"query": "a", "positive": "b", "negative": "c"})" "\n";
  run("some", "bert", "pairs", hard, {{"data.train", folder_.write("some.jsonl", lines).string()}});
}

}  // namespace
}  // namespace hone
