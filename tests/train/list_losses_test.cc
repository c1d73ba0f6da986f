// Cross-encoders that learn from lists against sentence-transformers (tools/golden/golden_taught.py).
#include <gtest/gtest.h>

#include <cmath>

#include "base/log.h"
#include "dist/ranks.h"
#include "harness/errors.h"
#include "hone/trainer.h"
#include "train/embedding_runs.h"

namespace hone {
namespace {

using test::values;

std::filesystem::path lists_golden(const std::string& name) { return test::golden("train/cross_encoder") / name; }

class ListLosses : public ::testing::Test {
 protected:
  Recipe recipe(const std::string& name, const std::string& data, const std::string& objective,
                const test::Overrides& overrides) {
    const std::string yaml = fmt::format(
        "model: {}\ndata: {{train: {}, max_length: 48, shuffle: false, cache: none}}\n"
        "objective: {{type: ranking{}{}}}\n"
        "optimizer: {{type: sgd, learning_rate: 0.01, schedule: {{type: constant}}}}\n"
        "trainer: {{precision: fp32, batch_size: 6, steps: 4, log_every: 1, max_grad_norm: 0, save: 0}}\nrun: {}\n",
        lists_golden("model").string(), data, objective.empty() ? "" : ", ", objective, (folder_ / name).string());
    return read_recipe(folder_.write("recipe.yaml", yaml).string(), overrides);
  }
  std::filesystem::path run(const std::string& name, const std::string& data, const std::string& objective = "",
                            const test::Overrides& overrides = {}) {
    train(recipe(name, data, objective, overrides), test::quiet_options());
    return folder_ / name;
  }
  static std::string data_of(const std::string& name) {
    return name == "lists" ? lists_golden("lists.jsonl").string() : test::embedding_golden(name + ".jsonl").string();
  }
  void expect_steps(const nlohmann::json& golden);
  test::TempFolder folder_;
  const nlohmann::json golden_ = test::read_json(lists_golden("lists.json"));
};

// Of each setting of a golden, whole, in parts, and of two ranks.
void ListLosses::expect_steps(const nlohmann::json& golden) {
  for (const auto& [name, setting] : golden["settings"].items()) {
    SCOPED_TRACE(name);
    const std::string objective = test::options_of(setting["options"]), data = data_of(setting["data"]);
    const auto whole = run(name, data, objective);
    const test::Overrides cut{{"trainer.batch_size", "1"}, {"trainer.accumulate", "6"}};
    const auto parts = run(name + " in parts", data, objective, cut);
    const test::Overrides halves{{"trainer.batch_size", "3"}, {"trainer.accumulate", "2"}};
    const Recipe two = recipe(name + " of two", data, objective, halves);
    test::on_ranks(2, [&](const World& world) {
      TrainOptions own = test::quiet_options();
      own.handle_signals = false, own.world = world;
      train(two, own);
    });
    for (const char* key : {"loss", "grad_norm"})
      for (std::size_t i = 0; i < 4; ++i) {
        const double wanted = golden["runs"][name][key][i], far = 1e-5 * std::max(1.0, wanted);
        EXPECT_NEAR(values(whole, key).at(i), wanted, far) << key << ", step " << i + 1;
        EXPECT_NEAR(values(parts, key).at(i), wanted, far) << key << ", step " << i + 1 << ", in parts";
        EXPECT_NEAR(values(folder_ / (name + " of two"), key).at(i), wanted, far) << key << ", of two ranks";
      }
  }
}

TEST_F(ListLosses, StepsOfEveryLossEqualSentenceTransformers) { expect_steps(golden_); }

// All texts of a step are each other's queries' negatives, whatever its micro-batches and ranks (tools/golden/
// golden_cross_negatives.py).
TEST_F(ListLosses, StepsWithTextsOfOtherRecordsEqualSentenceTransformers) {
  expect_steps(test::read_json(lists_golden("negatives.json")));
}

constexpr const char* kNegatives = "loss_type: multiple_negatives_ranking, num_negatives: 2";

TEST_F(ListLosses, TextsOfOtherRecordsAreDrawnAlikeHoweverAStepIsCut) {
  const std::string data = data_of("triplets");
  const auto whole = run("whole", data, kNegatives);
  const auto parts =
      run("parts", data, kNegatives, {{"trainer.batch_size", "2"}, {"trainer.accumulate", "3"}});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(values(whole, "loss").at(i), values(parts, "loss").at(i), 1e-6) << i;
  const auto all = run("all", data, "loss_type: multiple_negatives_ranking, num_negatives: 99");
  EXPECT_NEAR(values(all, "loss").at(0), test::read_json(lists_golden("negatives.json"))["runs"]["triplets"]["loss"][0],
              1e-5);
  EXPECT_LT(values(whole, "loss").at(0), values(all, "loss").at(0) - 0.1);
  EXPECT_NE(values(run("seed", data, kNegatives, {{"run.seed", "2"}}), "loss").at(0), values(whole, "loss").at(0));
}

// Texts that fit alone and are too long together lose the end of the longer one.
TEST_F(ListLosses, PairsOfDrawnTextsAreCutAtTheDatasLengthUnlessTheyHaveOneOfTheirOwn) {
  const test::Overrides few{{"data.max_length", "12"}};
  const auto losses = [&](const std::string& name, const std::string& more) {
    return values(run(name, data_of("triplets"), kNegatives + more, few), "loss");
  };
  const std::vector<double> usual = losses("usual", "");
  EXPECT_EQ(usual, losses("same", ", max_pair_length: 12"));
  EXPECT_NE(usual, losses("longer", ", max_pair_length: 24"));
}

TEST_F(ListLosses, ARunWithDrawnTextsGoesOnToTheBit) {
  const test::Overrides cut{{"trainer.batch_size", "3"}, {"trainer.accumulate", "2"}, {"trainer.steps", "6"},
                            {"trainer.save.every", "3"}, {"optimizer.type", "adamw"}};
  const auto whole = run("whole", data_of("triplets"), kNegatives, cut);
  run("parts", data_of("triplets"), kNegatives, cut);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  train(recipe("parts", data_of("triplets"), kNegatives, cut), back);
  test::expect_equal_runs(whole, folder_ / "parts", 6);
}

// Of the texts of a batch; the order is that of own and drawn ones.
TEST_F(ListLosses, ASetIsMeasuredWithTextsOfOtherRecords) {
  const std::string data = data_of("triplets");
  const auto made = run("measured", data, "loss_type: multiple_negatives_ranking, num_negatives: 99",
                        {{"data.eval.all", data}, {"trainer.eval_at_start", "true"}, {"trainer.eval_batch_size", "6"},
                         {"optimizer.learning_rate", "0"}});
  const double mean = (values(made, "loss").at(0) + values(made, "loss").at(1)) / 2;  // of both halves
  EXPECT_NEAR(values(made, "eval_loss").at(0), mean, 1e-6);
  EXPECT_NEAR(values(made, "eval_accuracy").at(0), values(made, "eval_accuracy@1").at(0), 1e-9);
  EXPECT_GT(values(made, "eval_mrr@10").at(0), 0.0);
}

TEST_F(ListLosses, TextsOfOtherRecordsAreOfPairs) {
  const auto refuse = [&](const std::string& data, const std::string& fact) {
    EXPECT_HONE_ERROR(run("refused", data, kNegatives), data, fact);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
  };
  refuse(data_of("taught"), "taught.jsonl:1: has a score, which is not learnt; objective.loss_type is multiple_");
  refuse(data_of("classes"), "classes.jsonl:1: has a label, which is not learnt");
  EXPECT_HONE_ERROR(run("refused", data_of("pairs"), kNegatives, {{"trainer.batch_size", "1"}}), config,
                    "compares records of a step with each other");
}

TEST_F(ListLosses, EvaluationsAreOfTheLossThatIsTrainedAndOfTheOrder) {
  for (const char* type : {"lambda", "list_net", "adr_mse"}) {
    SCOPED_TRACE(type);
    const auto made = run(type, data_of("lists"), std::string("loss_type: ") + type,
                          {{"data.eval.all", data_of("lists")}, {"trainer.eval_at_start", "true"},
                           {"trainer.batch_size", "12"}, {"trainer.eval_batch_size", "5"},
                           {"optimizer.learning_rate", "0"}});
    EXPECT_NEAR(values(made, "eval_loss").at(0), values(made, "loss").at(0), 1e-6);
    EXPECT_NEAR(values(made, "eval_accuracy").at(0), values(made, "accuracy").at(0), 1e-9);
    for (const auto& [name, value] : golden_["measured"].items())
      EXPECT_NEAR(values(made, "eval_" + name).at(0), value.get<double>(), 1e-9) << name;
    EXPECT_NEAR(values(made, "accuracy").at(0), golden_["measured"]["accuracy@1"].get<double>(), 1e-9);
  }
}

// Queries whose texts are all worth the same have no right order.
TEST_F(ListLosses, QueriesWithoutABestTextAreNotMeasured) {
  const std::string one = "{\"query\": \"a\", \"documents\": [\"b\", \"c\"], \"scores\": [1, 0]}\n";
  const std::string even = "{\"query\": \"d\", \"documents\": [\"e\", \"f\"], \"scores\": [1, 1]}\n";
  const auto measured = [&](const std::string& name, const std::string& lines) {
    const std::string file = folder_.write(name + ".jsonl", lines).string();
    const auto made = run(name, data_of("lists"), "loss_type: list_net",
                          {{"data.eval.all", file}, {"trainer.eval_at_start", "true"}, {"trainer.steps", "1"},
                           {"optimizer.learning_rate", "0"}});
    std::vector<double> all;
    for (const char* key : {"eval_accuracy", "eval_accuracy@1", "eval_map"}) all.push_back(values(made, key).at(0));
    return all;
  };
  const std::string other = "{\"query\": \"a\", \"documents\": [\"b\", \"c\"], \"scores\": [0, 1]}\n";
  EXPECT_EQ(measured("alone", one), measured("beside", one + even));
  EXPECT_EQ(measured("other alone", other), measured("other beside", other + even));
  EXPECT_NE(measured("alone", one), measured("other alone", other));
}

// As if it were worth 1, and the others 0.
TEST_F(ListLosses, WithoutScoresThePositiveIsTheBest) {
  std::string scored, bare, listed;
  for (int i = 0; i < 12; ++i) {
    const std::string query = fmt::format(R"("query": "q{}")", i), others = fmt::format(R"("n{}", "m{}")", i, i * i);
    const std::string texts = fmt::format(R"({}, "positive": "p{}", "negatives": [{}])", query, i, others);
    bare += "{" + texts + "}\n";
    scored += "{" + texts + ", \"scores\": [1, 0, 0]}\n";
    listed += fmt::format("{{{}, \"documents\": [\"p{}\", {}], \"scores\": [1, 0, 0]}}\n", query, i, others);
  }
  for (const char* type : {"lambda", "plist_mle"}) {
    const std::string objective = std::string("loss_type: ") + type;
    const auto losses = [&](const std::string& name, const std::string& lines) {
      const std::string file = folder_.write(name + ".jsonl", lines).string();
      return values(run(name + " " + type, file, objective), "loss");
    };
    EXPECT_EQ(losses("bare", bare), losses("scored", scored));
    EXPECT_EQ(losses("bare again", bare), losses("listed", listed));
  }
}

TEST_F(ListLosses, ARunGoesOnToTheBit) {
  const test::Overrides cut{{"trainer.batch_size", "3"}, {"trainer.accumulate", "2"}, {"trainer.steps", "6"},
                            {"trainer.save.every", "3"}, {"optimizer.type", "adamw"}};
  const auto whole = run("whole", data_of("lists"), "", cut);
  run("parts", data_of("lists"), "", cut);
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  train(recipe("parts", data_of("lists"), "", cut), back);
  test::expect_equal_runs(whole, folder_ / "parts", 6);
}

TEST_F(ListLosses, WhatIsNotLearntIsRefusedBeforeTheFirstStep) {
  const auto refuse = [&](const std::string& lines, const std::string& objective, const std::string& fact) {
    const std::string file = folder_.write("own.jsonl", lines).string();
    for (const char* set : {"data.train", "data.eval.some", "data.test.some"}) {
      SCOPED_TRACE(set);
      const test::Overrides own{{set, file}, {"trainer.batch_size", "1"}};
      EXPECT_HONE_ERROR(run("refused", data_of("lists"), objective, own), data, fact);
      EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
    }
  };
  const std::string good =
      "{\"query\": \"a\", \"positive\": \"b\", \"negative\": \"c\", \"scores\": [2, 1]}\n"
      "{\"query\": \"a\", \"positive\": \"b\", \"negative\": \"c\", \"scores\": [0, 0]}\n";
  refuse(good + "{\"query\": \"a\", \"positive\": \"b\"}\n", "",
         "own.jsonl:3: a query with one text; expected several");
  refuse(good + "{\"query\": \"a\", \"positive\": \"b\", \"negative\": \"c\"}\n", "loss_type: margin_mse",
         "own.jsonl:3: has no scores; objective.loss_type is margin_mse");
  refuse("{\"query\": \"a\", \"documents\": [\"b\", \"c\"], \"scores\": [1]}\n", "",
         "own.jsonl:1: field \"scores\": got 1 number, expected one for each of 2 texts");
  refuse("{\"query\": \"a\", \"documents\": [\"b\", \"c\"]}\n", "", "own.jsonl:1: no field \"scores\"");
  refuse("{\"text\": \"a\", \"label\": 1}\n", "", "own.jsonl:1: no field \"query\"");
  const std::string margin = "{\"query\": \"a\", \"positive\": \"b\", \"negative\": \"c\", \"score\": 3.5}\n";
  refuse(good + margin, "", "own.jsonl:3: its highest score is not above 0; expected one above 0");
  refuse("{\"query\": \"a\", \"documents\": [\"b\", \"c\"], \"scores\": [2000, 1]}\n", "",
         "own.jsonl:1: its highest score is 2000");
}

// Texts of a query that are all worth the same have no order.
TEST_F(ListLosses, TiesAloneAreRefusedBeforeTheFirstStep) {
  std::string ties;
  for (int i = 0; i < 6; ++i) ties += R"({"query": "a", "documents": ["b", "c"], "scores": [1, 1]})" "\n";
  const std::string file = folder_.write("ties.jsonl", ties).string(),
                    fact = "the texts of each query are all worth the same";
  for (const char* type : {"lambda", "rank_net"})
    EXPECT_HONE_ERROR(run("refused", file, std::string("loss_type: ") + type), data,
                      "data.train: " + fact + ": there is no order to learn");
  run("even", file, "loss_type: list_net");  // which learns that they are
  run("all pairs", file, "weighting_scheme: ndcg_loss1");
  for (const char* set : {"data.eval.some", "data.test.some"})
    EXPECT_HONE_ERROR(run("refused", data_of("lists"), "loss_type: list_net", {{set, file}}), data,
                      "some: " + fact + ": no order of them is better than another, and there is no eval_accuracy@1");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "metrics.jsonl"));
}

TEST_F(ListLosses, AStepOfTiesSaysSo) {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += fmt::format(R"({{"query": "a", "documents": ["b", "c"], "scores": [1, {}]}})", i < 6 ? 1 : 0) + "\n";
  std::string said;
  log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
  run("ties", folder_.write("some.jsonl", lines).string());
  log::set_sink({});
  EXPECT_NE(said.find("step 1: the texts of each of its queries are all worth the same, no update"), std::string::npos);
  EXPECT_EQ(said.find("step 2: the texts"), std::string::npos) << said;
}

// A record is a row, so that packing would not help.
TEST_F(ListLosses, TooFewRecordsForABatchAreCounted) {
  EXPECT_HONE_ERROR(run("refused", data_of("lists"), "", {{"trainer.batch_size", "13"}}), data,
                    "data: 12 rows per epoch; expected at least one batch of 13\n  hint: set trainer.batch_size to 12");
}

TEST_F(ListLosses, WhatCannotBeIsRefused) {
  const auto refuse = [&](const std::string& objective, const std::string& fact, const test::Overrides& more = {}) {
    EXPECT_HONE_ERROR(run("refused", data_of("lists"), objective, more), config, fact);
  };
  refuse("loss_type: rank_net, weighting_scheme: ndcg_loss1", "objective.weighting_scheme: only with loss_type lambda");
  refuse("weighting_scheme: ndcg_loss1, mu: 2", "objective.mu: only with loss_type lambda and weighting_scheme");
  refuse("loss_type: list_net, sigma: 2", "objective.sigma: only with loss_type lambda or rank_net");
  refuse("alpha: 2", "objective.alpha: only with loss_type adr_mse");
  for (const char* option : {"num_negatives: 3", "scale: 2", "activation_fn: identity", "max_pair_length: 9"})
    refuse(option, "only with loss_type multiple_negatives_ranking");
}

}  // namespace
}  // namespace hone
