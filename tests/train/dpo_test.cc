// Preference training against TRL's DPOTrainer (tools/golden/golden_dpo.py), and what must hold without it.
#include <gtest/gtest.h>

#include <cmath>

#include "hone/hub.h"
#include "train/evaluate.h"
#include "train/pair_runs.h"

namespace hone {
namespace {

class DpoRuns : public test::PairRuns {
 protected:
  const nlohmann::json golden_ = test::read_json(test::golden("train/dpo/dpo_30_steps.json"));
};

TEST_F(DpoRuns, ThirtyStepsEqualTrl) {
  const auto made = run("plain");
  EXPECT_NEAR(values(made, "loss")[0], std::log(2.0), 1e-6);
  expect_history(made, golden_["plain"]);
}

TEST_F(DpoRuns, WithRpoTheChosenAnswersLossIsAdded) {
  auto golden = golden_["rpo"];
  const auto made = run("rpo", {}, "rpo_alpha: 0.5");
  // The schedule of ten steps is another one than that of thirty.
  golden.erase("learning_rate");
  const auto ten = run("ten", {{"trainer.steps", "10"}}, "rpo_alpha: 0.5");
  expect_history(ten, golden);
  const std::vector<double> loss = values(made, "loss"), dpo = values(made, "dpo_loss"), nll = values(made, "nll_loss");
  for (std::size_t i = 0; i < loss.size(); ++i) EXPECT_NEAR(loss[i], dpo[i] + 0.5 * nll[i], 1e-5);
}

TEST_F(DpoRuns, EachLossEqualsTrl) {
  const nlohmann::json golden = test::read_json(test::golden("train/dpo/dpo_losses.json"));
  const test::Overrides few{{"trainer.steps", "8"}};
  for (const auto& [loss, options] : golden["settings"].items()) {
    SCOPED_TRACE(loss);
    std::string objective = "loss_type: " + loss;
    for (const auto& [option, value] : options.items()) objective += fmt::format(", {}: {}", option, value.dump());
    expect_history(run(loss, few, objective), golden["runs"][loss]);
  }
  const auto both = run("several", few, "loss_type: [sigmoid, bco_pair], loss_weights: [0.8, 0.2]");
  expect_history(both, golden["runs"]["several"]);
  const std::vector<double> loss = values(both, "loss"), a = values(both, "sigmoid_loss"),
                            b = values(both, "bco_pair_loss");
  ASSERT_EQ(a.size(), loss.size());
  for (std::size_t i = 0; i < loss.size(); ++i) EXPECT_NEAR(loss[i], 0.8 * a[i] + 0.2 * b[i], 1e-6);
}

TEST_F(DpoRuns, OptionsOfOtherLossesAreRefused) {
  const auto refused = [&](const std::string& objective, const std::string& why) {
    EXPECT_HONE_ERROR(run("a", {}, objective), config, why);
  };
  refused("loss_type: ipo, label_smoothing: 0.1", "only with loss_type sigmoid, robust or exo_pair");
  refused("loss_type: exo_pair", "expected above 0 with loss_type exo_pair");
  refused("discopop_tau: 0.1", "only with loss_type discopop");
  refused("loss_type: [ipo, ipo]", "a loss is there twice");
  refused("loss_type: []", "expected at least one loss");
  refused("loss_type: [ipo, hinge], loss_weights: [1]", "expected as many as loss_type has losses");
  refused("loss_weights: [0]", "expected numbers above 0");
  refused("loss_type: aot", "expected one of sigmoid");
}

// To fp32's resolution of sums over a hundred tokens, which fp64 shows to be all.
TEST_F(DpoRuns, PairsInOneMicroBatchOrEachInItsOwnAreTheSame) {
  for (const auto& [precision, tolerance] : {std::pair("fp64", 1e-10), std::pair("fp32", 1e-6)}) {
    SCOPED_TRACE(precision);
    const std::string of = precision;
    const auto eight = run(of + "8x1", {{"trainer.batch_size", "8"}, {"trainer.precision", of}}, "rpo_alpha: 0.1");
    const auto one =
        run(of + "1x8", {{"trainer.batch_size", "1"}, {"trainer.accumulate", "8"}, {"trainer.precision", of}},
            "rpo_alpha: 0.1");
    for (const char* name : {"loss", "rewards/margins", "nll_loss", "entropy", "logits/chosen", "mean_token_accuracy"})
      expect_near(values(eight, name), values(one, name),
                  name == std::string("rewards/margins") ? 20 * tolerance : tolerance);
  }
}

// No second model: the reference is the adapter as it began, which is that of the base.
TEST_F(DpoRuns, ThirtyStepsOfAnAdapterEqualTrl) {
  const std::string start = (test::golden("train/dpo") / "adapter").string();
  const auto made =
      run("lora", {{"adapter.type", "lora"}, {"adapter.path", start}, {"optimizer.learning_rate", "1e-2"}});
  expect_history(made, golden_["lora"]);
}

// Where modules were trained whole nothing of it lies below the adapter: the reference is a model of its own.
TEST_F(DpoRuns, TheReferenceOfAContinuedAdapterIsWhatItWas) {
  const test::Overrides lora{{"adapter", "{type: lora, rank: 4, modules_to_save: [norm]}"},
                             {"optimizer.learning_rate", "3e-2"}};
  const auto first = run("first", lora);
  EXPECT_LT(values(first, "loss").back(), 0.6);
  const auto next = run("next", {{"adapter", "{type: lora, path: " + first.string() + "}"}, {"trainer.steps", "4"}});
  EXPECT_NEAR(values(next, "loss")[0], std::log(2.0), 1e-5);
}

// Not the latest one of a run that has gone on since, before or behind the start.
TEST_F(DpoRuns, TheReferenceIsTheCheckpointThatTheRunBeganWith) {
  const std::pair<std::string, std::string> no_warmup{"optimizer.schedule.warmup_steps", "0"};
  const auto source = [&](const char* steps) {
    return run("source", {{"trainer.steps", steps}, {"trainer.save.every", "2"}, {"trainer.save.keep", "0"}});
  };
  const std::string model = "{path: " + source("6").string() + ", load: 2}";
  const auto from_it = [&](const std::string& name, const char* steps, const std::string& objective,
                           test::Overrides more = {}) {
    more.insert(more.end(), {{"model", model}, {"trainer.steps", steps}, {"trainer.save.every", "2"}, no_warmup});
    return run(name, more, objective);
  };
  EXPECT_NEAR(values(from_it("next", "2", ""), "loss")[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(values(from_it("kept", "2", "precompute_reference: true"), "loss")[0], std::log(2.0), 1e-6);
  const auto adapter = from_it("adapter", "2", "", {{"adapter", "{type: lora, rank: 4}"}});
  const std::string base =
      test::read_json(adapter / test::step_folder(2) / "adapter_config.json")["base_model_name_or_path"];
  EXPECT_TRUE(base.ends_with("checkpoints/step-00000002")) << base;
  source("8");
  from_it("next", "4", "");
  from_it("adapter", "4", "", {{"adapter", "{type: lora, rank: 4}"}});
}
TEST_F(DpoRuns, TheReferenceLeavesOutWhatTheModelDoes) {
  const std::string model =
      "{path: " + test::golden("train/dpo").string() + ", num_hidden_layers: 1, load: {strict: false}}";
  const auto made = run("short", {{"model", model}, {"trainer.steps", "4"}});
  EXPECT_NEAR(values(made, "loss")[0], std::log(2.0), 1e-6);
}

TEST_F(DpoRuns, PackingChangesNothing) {
  const auto apart = run("apart", {{"trainer.batch_size", "40"}, {"trainer.steps", "5"}});
  const auto packed = run(
      "packed",
      {{"trainer.batch_size", "1"}, {"data.packing", "best_fit"}, {"data.max_length", "4096"}, {"trainer.steps", "5"}});
  expect_near(values(apart, "loss"), values(packed, "loss"), 1e-5);
}

// Asked for in each step, or before the first one; then a second run takes what the first has kept.
TEST_F(DpoRuns, APrecomputedReferenceIsTheSame) {
  const std::string cache = (folder_ / "cache").string();
  const test::Overrides kept{{"data.cache", cache}};
  const auto live = run("live"), first = run("first", kept, "precompute_reference: true");
  expect_near(values(live, "loss"), values(first, "loss"), 1e-6);
  const auto file = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(cache))
      if (entry.path().filename().string().starts_with("numbers-")) return entry.path();
    return std::filesystem::path();
  }();
  ASSERT_FALSE(file.empty());
  const auto tensors = test::read_tensors(file);
  EXPECT_EQ(tensors.at("reference_log_probs").numel(), 80);
  const auto written = std::filesystem::last_write_time(file);
  const auto second = run("second", kept, "precompute_reference: true");
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  EXPECT_EQ(values(second, "loss"), values(first, "loss"));
  // What cannot be read is made anew.
  std::ofstream(file, std::ios::binary) << "no safetensors";
  EXPECT_EQ(values(run("third", kept, "precompute_reference: true"), "loss"), values(first, "loss"));
}

TEST_F(DpoRuns, WithoutAReferenceRewardsAreLogProbabilities) {
  const auto made = run("free", {{"trainer.steps", "4"}}, "reference_free: true");
  const auto rewards = values(made, "rewards/chosen"), log_probs = values(made, "logps/chosen");
  for (std::size_t i = 0; i < rewards.size(); ++i) EXPECT_NEAR(rewards[i], 0.2 * log_probs[i], 1e-4);
}

// A model that is its own reference is at ln 2, whatever is smoothed; another one is not.
TEST_F(DpoRuns, LabelSmoothingAndAnotherReference) {
  EXPECT_NEAR(values(run("smooth", {{"trainer.steps", "4"}}, "label_smoothing: 0.2"), "loss")[0], std::log(2.0), 1e-6);
  const auto trained = run("trained");
  const auto other =
      run("other", {{"trainer.steps", "4"}}, fmt::format("label_smoothing: 0.2, reference: {}", trained.string()));
  // Of a margin m: (1 - s) log(1 + e^-m) + s log(1 + e^m), for each of four pairs.
  const auto plain = run("plain4", {{"trainer.steps", "4"}}, fmt::format("reference: {}", trained.string()));
  const double smooth = values(other, "loss")[0], sharp = values(plain, "loss")[0];
  const double margin = values(plain, "rewards/margins")[0];
  EXPECT_LT(margin, -0.1);
  EXPECT_NEAR(smooth, sharp + 0.2 * margin, 1e-5);
}

TEST_F(DpoRuns, HeldOutPairsAreEvaluated) {
  const auto made =
      run("held", {{"data.eval.held_out", "0.25"},
                   {"trainer.eval_every", "10"},
                   {"trainer.batch_size", "5"},
                   {"callbacks", "[{type: early_stopping, metric: eval_rewards/accuracies, patience: 9}]"}});
  for (const char* name : {"eval_loss", "eval_rewards/accuracies", "eval_rewards/margins", "eval_logps/chosen",
                           "eval_logits/rejected", "eval_entropy", "eval_mean_token_accuracy"})
    EXPECT_EQ(values(made, name).size(), 3u) << name;
  EXPECT_LT(values(made, "eval_loss")[0], std::log(2.0));
  // As the loss of the same pairs in training, before anything is learnt.
  const auto still = run("still",
                         {{"data.eval.all", test::golden("train/dpo/pairs.jsonl").string()},
                          {"optimizer.learning_rate", "0"},
                          {"trainer.batch_size", "40"},
                          {"trainer.steps", "1"},
                          {"optimizer.schedule", "{type: constant}"},
                          {"trainer.eval_every", "1"}},
                         "rpo_alpha: 0.3");
  for (const char* name : {"loss", "dpo_loss", "nll_loss", "logps/chosen", "logits/chosen", "entropy"})
    EXPECT_NEAR(values(still, name)[0], values(still, std::string("eval_") + name)[0], 1e-4) << name;
}

// What `hone eval --metric preference` says of a model's pairs is what training sees of them before it learns.
TEST_F(DpoRuns, TheEvaluationOfPairsSeesTheSameLogProbabilities) {
  const auto still =
      run("still", {{"trainer.batch_size", "40"}, {"trainer.steps", "1"}, {"optimizer.schedule", "{type: constant}"}},
          "reference_free: true");
  const auto tokenizer = load_tokenizer("bytes");
  DataFile file;
  file.path = test::golden("train/dpo/pairs.jsonl").string();
  const auto data = Dataset::make({file}, *tokenizer, {.max_length = 256, .records = RecordKind::preference});
  const auto model = load_model(test::golden("train/dpo").string(), Precision::fp32);
  const auto evaluations = training::make_evaluations({"preference"});
  const Metrics measured = *training::evaluate(*model, evaluations, *data, {.batch_size = 7});
  for (const char* name : {"logps/chosen", "logps/rejected"})
    EXPECT_NEAR(measured.at(name), values(still, name)[0], 1e-3) << name;
  EXPECT_NEAR(measured.at("accuracy"), values(still, "rewards/accuracies")[0], 1e-6);
  EXPECT_EQ(measured.at("pairs"), 40);
  // Short sides are likelier as a whole; of each token that need not be.
  EXPECT_NE(measured.at("accuracy_per_token"), measured.at("accuracy"));
}

TEST_F(DpoRuns, GoesOnBitForBit) {
  for (const std::string objective : {"", "precompute_reference: true"}) {
    SCOPED_TRACE(objective);
    const std::string name = objective.empty() ? "live" : "kept";
    const test::Overrides saves{{"trainer.save.every", "10"}};
    const auto whole = run(name + "-whole", saves, objective);
    test::Overrides half = saves;
    half.push_back({"trainer.steps", "30"});
    const auto parts = run(name + "-parts", half, objective);
    TrainOptions back = test::quiet_options();
    back.resume = "10";
    run(name + "-parts", half, objective, back);
    test::expect_equal_runs(whole, parts, 30);
  }
}

TEST_F(DpoRuns, AnotherReferenceThanBeforeIsRefused) {
  const auto trained = run("trained", {{"trainer.steps", "4"}});
  const std::string objective = fmt::format("reference: {}", trained.string());
  const test::Overrides few{{"trainer.steps", "6"}, {"trainer.save.every", "3"}};
  run("mine", few, objective);
  run("trained", {{"trainer.steps", "8"}});  // its newest checkpoint is another one now
  TrainOptions back = test::quiet_options();
  back.resume = "3";
  EXPECT_HONE_ERROR(run("mine", few, objective, back), checkpoint,
                    "the reference is not the model that the run has had so far");
}

TEST_F(DpoRuns, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(run("a", {}, "reference_free: true, reference: x"), config, "not together with reference_free");
  EXPECT_HONE_ERROR(run("b", {}, "reference: /nowhere"), checkpoint, "looking for the reference");
  EXPECT_HONE_ERROR(run("c", {{"data.train.0.stream", "true"}}, "precompute_reference: true"), config,
                    "data.train is a stream");
}

}  // namespace
}  // namespace hone
