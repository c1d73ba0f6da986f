// Answers that are judged one by one against TRL's KTOTrainer, and dft against its SFTTrainer (both
// tools/golden/golden_kto.py), and what must hold without them.
#include "train/pair_runs.h"

namespace hone {
namespace {

std::string answers() { return test::golden("train/kto/answers.jsonl").string(); }

class KtoRuns : public test::PairRuns {
 protected:
  void SetUp() override { objective_ = "type: kto, beta: 0.2"; }
  std::filesystem::path judged(const std::string& name, const std::string& objective = "",
                               const test::Overrides& more = {}) {
    test::Overrides all{{"data.train", answers()}, {"trainer.steps", "10"}};
    all.insert(all.end(), more.begin(), more.end());
    return run(name, all, objective);
  }
  const nlohmann::json golden_ = test::read_json(test::golden("train/kto/kto.json"));
};

TEST_F(KtoRuns, EachLossEqualsTrl) {
  for (const auto& [name, options] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    test::Overrides more;
    for (const auto& [option, value] : options.items())
      more.emplace_back("objective." + option, value.is_string() ? value.get<std::string>() : value.dump());
    nlohmann::json golden = golden_["runs"][name];
    if (options.contains("loss_type")) golden.erase("kl");  // TRL logs 0 of what it does not ask
    expect_history(judged(name, "", more), golden);
  }
}

TEST_F(KtoRuns, AnswersInOneMicroBatchOrEachInItsOwnAreTheSame) {
  const auto split = [&](const std::string& loss, const char* rows, const char* times) {
    return judged(loss + rows, "loss_type: " + loss,
                  {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.precision", "fp64"}});
  };
  for (const std::string loss : {"apo_zero_unpaired", "kto"}) {
    SCOPED_TRACE(loss);
    const auto eight = split(loss, "8", "1"), one = split(loss, "1", "8");
    for (const char* name : {"loss", "rewards/chosen", "logps/rejected", "grad_norm"})
      expect_near(values(eight, name), values(one, name), 1e-9);
    if (loss == "kto") expect_near(values(eight, "kl"), values(one, "kl"), 1e-9);
  }
}

// A pair is a desirable answer and another one, whichever way it is written.
TEST_F(KtoRuns, PairsAreTwoAnswers) {
  std::string lines;
  std::istringstream pairs(test::read_text(test::golden("train/dpo/pairs.jsonl")));
  for (std::string line; std::getline(pairs, line);) {
    const nlohmann::json pair = nlohmann::json::parse(line);
    for (const char* side : {"chosen", "rejected"})
      lines +=
          nlohmann::json{
              {"prompt", pair["prompt"]}, {"completion", pair[side]}, {"label", std::string(side) == "chosen"}}
              .dump() +
          "\n";
  }
  const test::Overrides fp64{{"trainer.precision", "fp64"}};
  test::Overrides single = fp64, both = fp64;
  single.insert(single.end(),
                {{"data.train", folder_.write("single.jsonl", lines).string()}, {"trainer.batch_size", "8"}});
  both.emplace_back("data.train", test::golden("train/dpo/pairs.jsonl").string());
  const auto of_single = judged("single", "loss_type: apo_zero_unpaired", single),
             of_pairs = judged("pairs", "loss_type: apo_zero_unpaired", both);
  for (const char* name : {"loss", "rewards/margins", "grad_norm"})
    expect_near(values(of_single, name), values(of_pairs, name), 1e-9);
  // A prompt does not meet the other answer to itself: what is asked differs, what is learnt first does not.
  EXPECT_NEAR(values(judged("kto_pairs", "", both), "loss").at(0), 0.5, 1e-9);
}

// A step without one kind of answers says nothing of it.
TEST_F(KtoRuns, ASideThatAStepHasNotIsNotLogged) {
  std::string lines;
  for (const char* label : {"true", "true", "false", "true"})
    for (int i = 0; i < 2; ++i)
      lines += fmt::format("{{\"prompt\": \"a{}\", \"completion\": \"b\", \"label\": {}}}\n", lines.size(), label);
  const auto made = judged("a", "",
                           {{"data.train", folder_.write("sides.jsonl", lines).string()},
                            {"trainer.batch_size", "2"},
                            {"trainer.steps", "4"},
                            {"optimizer.schedule", "{type: constant}"}});
  EXPECT_EQ(values(made, "loss").size(), 4u);
  EXPECT_EQ(values(made, "rewards/chosen").size(), 3u);
  EXPECT_EQ(values(made, "rewards/rejected").size(), 1u);
  EXPECT_EQ(values(made, "rewards/margins").size(), 0u);
}

TEST_F(KtoRuns, GoesOnBitForBit) {
  const auto whole = judged("whole", "", {{"trainer.steps", "6"}, {"trainer.save", "3"}});
  judged("parts", "", {{"trainer.steps", "3"}, {"trainer.save", "3"}});
  const auto parts = judged("parts", "", {{"trainer.steps", "6"}, {"trainer.save", "3"}});
  for (const char* name : {"loss", "kl", "rewards/chosen", "grad_norm"})
    EXPECT_EQ(values(whole, name), values(parts, name)) << name;
}

TEST_F(KtoRuns, HeldOutAnswersAreEvaluated) {
  const auto made = judged("a", "",
                           {{"data.eval.all", answers()},
                            {"optimizer.learning_rate", "0"},
                            {"trainer.batch_size", "40"},
                            {"trainer.steps", "1"},
                            {"optimizer.schedule", "{type: constant}"},
                            {"objective.reference", test::golden("train/distillation/teacher").string()},
                            {"trainer.eval_every", "1"}});
  for (const std::string name :
       {"loss", "kl", "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/rejected", "entropy"})
    EXPECT_NEAR(values(made, name).at(0), values(made, "eval_" + name).at(0), 1e-4) << name;
}

TEST_F(KtoRuns, ReferenceOfAnAdapterIsTheModelBelow) {
  const auto made = judged("a", "", {{"adapter", "{type: lora, rank: 4}"}, {"trainer.steps", "4"}});
  EXPECT_NEAR(values(made, "rewards/chosen").at(0), 0, 1e-6);
  EXPECT_NEAR(values(made, "kl").at(0), 0, 1e-6);
}

TEST_F(KtoRuns, TheReferenceMayAnswerBefore) {
  const auto each = judged("each", "loss_type: apo_zero_unpaired"),
             before = judged("before", "loss_type: apo_zero_unpaired, precompute_reference: true");
  expect_near(values(each, "loss"), values(before, "loss"), 1e-6);
}

TEST_F(KtoRuns, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(judged("a", "", {{"trainer.batch_size", "1"}}), config, "expected at least 2");
  EXPECT_HONE_ERROR(judged("a", "precompute_reference: true"), config, "only with loss_type apo_zero_unpaired");
  EXPECT_HONE_ERROR(judged("a", "desirable_weight: 0, undesirable_weight: 0"), config, "nothing is learnt");
  EXPECT_HONE_ERROR(judged("a", "", {{"data.loss", "all"}}), config, "an answer that is judged, but loss is all");
}

class DftRuns : public test::PairRuns {
 protected:
  void SetUp() override { objective_ = "type: causal_lm, loss_type: dft"; }
  std::filesystem::path learnt(const std::string& name, const test::Overrides& more = {},
                               const std::string& objective = "") {
    test::Overrides all{{"data.train", answers()}, {"data.train.0.ignore", "[label]"}, {"trainer.steps", "10"}};
    all.insert(all.end(), more.begin(), more.end());
    return run(name, all, objective);
  }
};

TEST_F(DftRuns, TenStepsEqualTrl) {
  const nlohmann::json golden = test::read_json(test::golden("train/kto/dft.json"));
  const auto made = learnt("a");
  for (const char* name : {"loss", "grad_norm"}) {
    const std::vector<double> got = values(made, name);
    ASSERT_EQ(got.size(), golden[name].size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i] / golden[name][i].get<double>(), 1, 1e-3) << name << ", step " << i + 1;
  }
}

// EAFT as Axolotl has it (its loss in TRL's trainer, tools/golden/golden_kto.py).
TEST_F(DftRuns, TenStepsOfEaftEqualAxolotls) {
  const nlohmann::json golden = test::read_json(test::golden("train/kto/eaft.json"));
  for (const auto& [name, expected] : golden["runs"].items()) {
    SCOPED_TRACE(name);
    objective_ = "type: causal_lm, loss_type: eaft";
    std::string objective;
    for (const auto& [option, value] : expected["options"].items())
      objective += (objective.empty() ? "" : ", ") + option + ": " + value.dump();
    const auto made = learnt(name, {}, objective);
    for (const char* metric : {"loss", "grad_norm"}) {
      const std::vector<double> got = values(made, metric);
      ASSERT_EQ(got.size(), expected[metric].size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i] / expected[metric][i].get<double>(), 1, 1e-3) << metric << ", step " << i + 1;
    }
  }
}

// Where its power is 0 nothing is weighed; micro-batches of any size learn the same.
TEST_F(DftRuns, EaftIsWeighedTokenByToken) {
  objective_ = "type: causal_lm";
  const test::Overrides wide{{"trainer.precision", "fp64"}};
  const auto plain = values(learnt("plain", wide), "loss");
  const auto none = values(learnt("none", wide, "loss_type: eaft, eaft_alpha: 0"), "loss");
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], none[i], 1e-12);
  const auto split = [&](const char* name, const char* rows, const char* times) {
    return values(learnt(name, {{"trainer.precision", "fp64"}, {"trainer.batch_size", rows},
                                {"trainer.accumulate", times}, {"trainer.checkpoint_blocks", name == std::string("b") ?
                                "true" : "false"}},
                         "loss_type: eaft, eaft_k: 5"),
                  "loss");
  };
  const auto a = split("a", "4", "1"), b = split("b", "1", "4");
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-10);
}

TEST_F(DftRuns, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_HONE_ERROR(learnt("a", {}, "z_loss: 0.1"), config, "not with label_smoothing or z_loss");
  EXPECT_HONE_ERROR(learnt("a", {}, "metrics: [perplexity]"), config, "perplexity: not of loss_type dft");
  EXPECT_HONE_ERROR(learnt("a", {}, "eaft_k: 5"), config, "eaft_k: only with loss_type eaft");
  objective_ = "type: causal_lm, loss_type: eaft";
  EXPECT_HONE_ERROR(learnt("a", {}, "label_smoothing: 0.1"), config, "eaft: not with label_smoothing or z_loss");
}

TEST_F(DftRuns, ADelayThatComesToNothingIsRefused) {
  const std::string set = folder_.write("e.jsonl", "\"abc\"\n").string();
  EXPECT_HONE_ERROR(learnt("a", {{"data.eval.all", set}, {"trainer.eval_delay", "5"}}), config,
                    "nothing is evaluated but at the end");
  EXPECT_HONE_ERROR(learnt("a", {{"data.eval.all", set},
                                 {"trainer.eval_every", "2"},
                                 {"trainer.eval_delay", "10"},
                                 {"callbacks", "[early_stopping]"}}),
                    config, "acts on evaluations, but there is only the one at the end");
}

// Evaluations before it come to nothing; the one at the end is made.
TEST_F(DftRuns, EvaluationsBeginAfterTheirDelay) {
  const auto steps = [&](const std::string& name, const test::Overrides& more) {
    test::Overrides all{{"data.eval.all", folder_.write("e.jsonl", "\"abc\"\n").string()}, {"trainer.eval_every", "2"}};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<std::int64_t> made;
    for (const nlohmann::json& line : test::metrics_of(learnt(name, all)))
      if (line.contains("eval_loss")) made.push_back(line["step"]);
    return made;
  };
  EXPECT_EQ(steps("a", {}), (std::vector<std::int64_t>{2, 4, 6, 8, 10}));
  EXPECT_EQ(steps("b", {{"trainer.eval_delay", "5"}}), (std::vector<std::int64_t>{6, 8, 10}));
  EXPECT_EQ(steps("c", {{"trainer.eval_delay", "50"}}), (std::vector<std::int64_t>{10}));
}

// Noise is drawn anew in each step, the same in each run, and not in evaluations.
TEST_F(DftRuns, NoiseOnEmbeddingsIsOfTheSeed) {
  objective_ = "type: causal_lm";
  const test::Overrides still{
      {"optimizer.learning_rate", "0"},     {"optimizer.weight_decay", "0"},
      {"trainer.neftune_noise_alpha", "5"}, {"data.eval.all", folder_.write("e.jsonl", "\"abc\"\n").string()},
      {"trainer.eval_every", "1"},          {"trainer.batch_size", "40"}};
  const auto a = values(learnt("a", still), "loss"), b = values(learnt("b", still), "loss");
  EXPECT_EQ(a, b);
  EXPECT_NE(a.at(0), a.at(1));
  EXPECT_NEAR(a.at(0), a.at(1), 0.2);
  test::Overrides other = still, none = still;
  other.emplace_back("run.seed", "2");
  none.emplace_back("trainer.neftune_noise_alpha", "0");
  EXPECT_NE(values(learnt("c", other), "loss"), a);
  const auto without = learnt("d", none);
  EXPECT_NE(values(without, "loss").at(0), a.at(0));
  EXPECT_EQ(values(without, "eval_loss"), values(folder_ / "a", "eval_loss"));
}

}  // namespace
}  // namespace hone
