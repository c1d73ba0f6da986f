// Losses of texts with labels and with a teacher's scores against sentence-transformers
// (tools/golden/golden_taught.py).
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::embedding_golden;
using test::values;

constexpr const char* kSparse = "../sparse/bert";

class TaughtLosses : public test::EmbeddingRuns {
 protected:
  TaughtLosses() : EmbeddingRuns("taught.json") {}
  // A file of these lines.
  std::string file(const std::string& lines) { return folder_.write("own.jsonl", lines).string(); }
  void expect_refused(const std::string& data, const std::string& objective, const std::string& fact) {
    EXPECT_HONE_ERROR(run("refused", "bert", data, objective), data, fact);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
  }
};

class SparseTaughtLosses : public test::EmbeddingRuns {
 protected:
  SparseTaughtLosses() : EmbeddingRuns("../sparse/taught.json", "sparse_embedding") {}
};

TEST_F(TaughtLosses, StepsOfBertEqualSentenceTransformers) { expect_steps("bert"); }
TEST_F(TaughtLosses, StepsOfALanguageModelEqualSentenceTransformers) { expect_steps("qwen3"); }

TEST_F(SparseTaughtLosses, StepsEqualSentenceTransformers) {
  for (const auto& [name, setting] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    expect_logged(run(name, kSparse, setting["data"], test::options_of(setting["options"])), golden_["runs"][name]);
  }
}

// Texts with labels are compared with all of the step's; a teacher's with those of their record alone.
TEST_F(TaughtLosses, AStepIsTheSameHoweverItIsCut) {
  int tag = 0;
  for (const char* type : {"batch_all_triplet", "batch_hard_triplet", "batch_hard_soft_margin_triplet",
                           "batch_semi_hard_triplet"}) {
    SCOPED_TRACE(type);
    expect_same_however_cut(std::to_string(++tag), "bert", "classes", std::string("loss_type: ") + type);
  }
  for (const char* type : {"margin_mse", "distill_kl_div"}) {
    SCOPED_TRACE(type);
    expect_same_however_cut(std::to_string(++tag), "bert", "taught", std::string("loss_type: ") + type);
  }
}

TEST_F(SparseTaughtLosses, AStepIsTheSameHoweverItIsCut) {
  expect_same_however_cut("sparse", kSparse, "taught", "loss_type: margin_mse, document_regularizer_weight: 0.001");
}

// What a set says at the start is what steps that change nothing say of it.
TEST_F(TaughtLosses, EvaluationsAreOfTheLossThatIsTrained) {
  for (const auto& [data, type] : {std::pair{"classes", "batch_hard_triplet"}, {"classes", "batch_semi_hard_triplet"},
                                   {"taught", "margin_mse"}, {"taught", "distill_kl_div"}}) {
    SCOPED_TRACE(type);
    const std::string file = embedding_golden(std::string(data) + ".jsonl").string();
    const auto made = run(type, "bert", data, std::string("loss_type: ") + type,
                          {{"data.eval.all", file}, {"trainer.eval_at_start", "true"},
                           {"trainer.eval_batch_size", "6"}, {"optimizer.learning_rate", "0"}});
    const auto learnt = values(made, "loss"), right = values(made, "accuracy");
    const std::size_t steps = std::string(data) == "classes" ? 4 : 2;  // that see all records once
    double loss = 0, accuracy = 0;
    for (std::size_t i = 0; i < steps; ++i) loss += learnt.at(i), accuracy += right.at(i);
    EXPECT_NEAR(values(made, "eval_loss").at(0), loss / static_cast<double>(steps), 1e-5);
    EXPECT_NEAR(values(made, "eval_accuracy").at(0), accuracy / static_cast<double>(steps), 1e-6);
  }
}

TEST_F(TaughtLosses, TextsOfALabelAreMeasuredByWhatIsNearest) {
  const std::string file = embedding_golden("classes.jsonl").string();
  const test::Overrides overrides{{"data.eval.all", file}, {"trainer.eval_at_start", "true"}};
  test::Overrides shared = overrides;
  shared.insert(shared.end(), {{"trainer.accumulate", "2"}, {"trainer.batch_size", "3"}});
  for (const char* model : {"bert", "qwen3"}) {
    SCOPED_TRACE(model);
    const std::string objective = "loss_type: batch_hard_triplet";
    const auto one = run(model, model, "classes", objective, overrides);
    const auto two = on_two_ranks(std::string(model) + "2", model, "classes", objective, shared);
    for (const auto& [name, value] : golden_[model]["measured"].items()) {
      EXPECT_NEAR(values(one, "eval_" + name).at(0), value.get<double>(), 1e-9) << name;
      EXPECT_NEAR(values(two, "eval_" + name).at(0), value.get<double>(), 1e-9) << name << ", two ranks";
    }
  }
}

// As ids or as names, in tables too.
TEST_F(TaughtLosses, LabelsAreNamesOrNumbers) {
  const auto numbers = run("numbers", "bert", "classes", "loss_type: batch_all_triplet");
  std::string lines, table = "text,label\n";
  std::ifstream in(embedding_golden("classes.jsonl"));
  for (std::string line; std::getline(in, line);) {
    auto record = nlohmann::json::parse(line);
    record["label"] = "class " + std::to_string(record["label"].get<int>());
    lines += record.dump() + "\n";
    table += record["text"].get<std::string>() + "," + record["label"].get<std::string>() + "\n";
  }
  const auto names = run("names", "bert", "classes", "loss_type: batch_all_triplet", {{"data.train", file(lines)}});
  const auto cells = run("cells", "bert", "classes", "loss_type: batch_all_triplet",
                         {{"data.train", folder_.write("own.csv", table).string()}});
  EXPECT_EQ(values(numbers, "loss"), values(names, "loss"));
  EXPECT_EQ(values(numbers, "loss"), values(cells, "loss"));
}

// One that has none of another label in the step has no triplet; one without another of its own is only pushed away.
TEST_F(TaughtLosses, AStepOfOneLabelSaysNothing) {
  const std::string lines = "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 1}\n"
                            "{\"text\": \"c\", \"label\": 1}\n{\"text\": \"d\", \"label\": 2}\n";
  const std::string own = file(lines);
  for (const char* type : {"batch_all_triplet", "batch_hard_triplet", "batch_hard_soft_margin_triplet",
                           "batch_semi_hard_triplet"}) {
    SCOPED_TRACE(type);
    const auto made = run(type, "bert", "classes", std::string("loss_type: ") + type,
                          {{"data.train", own}, {"trainer.batch_size", "2"}, {"trainer.steps", "2"}});
    EXPECT_EQ(values(made, "loss").at(0), 0);
    EXPECT_EQ(values(made, "grad_norm").at(0), 0);
    const bool is_pushed = std::string(type).starts_with("batch_hard");
    EXPECT_EQ(values(made, "grad_norm").at(1) > 0, is_pushed);
  }
}

TEST_F(TaughtLosses, WhatIsNotLearntIsRefusedBeforeTheFirstStep) {
  expect_refused("pairs", "loss_type: batch_all_triplet", "has no label; objective.loss_type is batch_all_triplet");
  expect_refused("classes", "", "has a label, which is not learnt");
  expect_refused("classes", "loss_type: margin_mse", "has a label, which is not learnt");
  expect_refused("pairs", "loss_type: margin_mse", "has no negative");
  expect_refused("triplets", "loss_type: distill_kl_div", "has no scores; objective.loss_type is distill_kl_div");
  expect_refused("scored", "loss_type: margin_mse", "has no negative");
  expect_refused("taught", "loss_type: triplet", "has a score, which is not learnt");
  expect_refused("taught", "loss_type: cosent", "has no score");
  const auto refuse = [&](const std::string& lines, const std::string& fact) {
    EXPECT_HONE_ERROR(run("refused", "bert", "classes", "loss_type: batch_hard_triplet",
                          {{"data.train", file(lines)}, {"trainer.batch_size", "2"}}),
                      data, fact);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
  };
  refuse("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 2}\n",
         "data.train: no two records have the same label");
  refuse("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 1}\n",
         "data.train: every record has the same label");
  refuse("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0.5}\n",
         "own.jsonl:2: field \"label\": got 0.5");
  refuse("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}\n", "own.jsonl:2: no field \"query\"");
}

// Nothing could be found near any of them.
TEST_F(TaughtLosses, ASetWhoseLabelsNeverMeetIsRefusedBeforeTheFirstStep) {
  const std::string lines = "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 2}\n";
  for (const char* set : {"data.eval.some", "data.test.some"})
    EXPECT_HONE_ERROR(run("refused", "bert", "classes", "loss_type: batch_hard_triplet", {{set, file(lines)}}), data,
                      "some: no two records have the same label: no text has another that should be found near it");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
  const std::string more = lines + "{\"text\": \"c\", \"label\": 1}\n";
  const auto made =
      run("measured", "bert", "classes", "loss_type: batch_hard_triplet", {{"data.eval.some", file(more)}});
  EXPECT_EQ(values(made, "eval_accuracy@1").size(), 1u);
}

// Later records of another kind, in a set to measure on, too.
TEST_F(TaughtLosses, ARecordWithoutScoresAmongOthersIsFound) {
  const std::string lines = test::read_text(embedding_golden("taught.jsonl")) +
                            R"({"query": "a", "positive": "b", "negative": "c"})" "\n";
  for (const char* set : {"data.train", "data.eval.some"})
    EXPECT_HONE_ERROR(run("refused", "bert", "taught", "loss_type: distill_kl_div", {{set, file(lines)}}), data,
                      "own.jsonl:13: has no scores");
}

TEST_F(TaughtLosses, OptionsOfOtherLossesAreRefused) {
  const auto refuse = [&](const std::string& data, const std::string& objective, const std::string& fact) {
    EXPECT_HONE_ERROR(run("refused", "bert", data, objective), config, fact);
  };
  refuse("pairs", "teacher_temperature: 2", "objective.teacher_temperature: only with loss_type distill_kl_div");
  refuse("taught", "loss_type: margin_mse, temperature: 2", "objective.temperature: only with loss_type");
  refuse("taught", "loss_type: margin_mse, distance: euclidean", "objective.distance: only with loss_type triplet or");
  refuse("classes", "loss_type: batch_hard_soft_margin_triplet, margin: 1", "objective.margin: only with loss_type");
  refuse("classes", "loss_type: batch_hard_triplet, temperature: 1", "objective.temperature: only with loss_type");
}

TEST_F(SparseTaughtLosses, LabelsAreOfDenseVectors) {
  EXPECT_HONE_ERROR(run("refused", kSparse, "classes", "loss_type: batch_all_triplet"), config,
                    "got batch_all_triplet, which is of dense vectors");
}

// The margins of a teacher over other texts are its scores, but for a number that all have.
TEST_F(TaughtLosses, MarginsAreScores) {
  std::string margins, scores;
  for (int i = 0; i < 12; ++i) {
    const std::string texts = fmt::format(R"("query": "q{0}", "positive": "p{0}", "negatives": ["n{0}", "m{0}"])", i);
    margins += fmt::format("{{{}, \"scores\": [{}, {}]}}\n", texts, 0.5 + i, 2 - i);
    scores += fmt::format("{{{}, \"scores\": [{}, {}, {}]}}\n", texts, 3 * i, 3 * i - (0.5 + i), 3 * i - (2 - i));
  }
  for (const char* type : {"margin_mse", "distill_kl_div"}) {
    const std::string objective = std::string("loss_type: ") + type;
    const std::string tag = type;
    const auto one = run("margins" + tag, "bert", "taught", objective, {{"data.train", file(margins)}});
    const std::string said = folder_.write("s.jsonl", scores).string();
    const auto other = run("scores" + tag, "bert", "taught", objective, {{"data.train", said}});
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(values(one, "loss").at(i), values(other, "loss").at(i), 1e-6) << type;
  }
}

}  // namespace
}  // namespace hone
