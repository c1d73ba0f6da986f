// Weights that are trained in some steps only.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "train/together.h"

namespace hone {
namespace {

using ByName = std::map<std::string, at::Tensor>;

constexpr const char* kPlainAdam = "{type: adamw, learning_rate: 1e-3, eps: 0, weight_decay: 0, schedule: constant}";
constexpr const char* kMoments = "state/optimizer-00000-of-00001.safetensors";

class TrainedByStep : public ::testing::Test {
 protected:
  std::filesystem::path run(const std::string& name, test::Overrides overrides,
                            const TrainOptions& options = test::quiet_options()) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    overrides.emplace_back("trainer.save.every", "1");
    overrides.emplace_back("trainer.save.keep", "0");
    train(test::small_recipe(folder_, overrides), options);
    return folder_ / name;
  }
  static ByName saved(const std::filesystem::path& run, std::int64_t step, const char* file = "model.safetensors") {
    return test::read_tensors(run / test::step_folder(step) / file);
  }
  test::TempFolder folder_;
};

// The first block for steps 1 to 4, the second for steps 4 to 8, the rest always.
constexpr const char* kTurns =
    "[{match: 'layers\\.0\\.', until: 4}, {match: 'layers\\.1\\.', from: 3, until: 8}, embed, lm_head, 'model\\.norm']";

TEST_F(TrainedByStep, WeightsChangeInTheirStepsAlone) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto folder = run(precision, {{"model.trainable", kTurns}, {"trainer.precision", precision}});
    for (std::int64_t step = 2; step <= 10; ++step) {
      const ByName before = saved(folder, step - 1), after = saved(folder, step);
      const ByName moments = saved(folder, step, kMoments);
      for (const auto& [name, value] : after) {
        const bool first = name.find("layers.0.") != name.npos, second = name.find("layers.1.") != name.npos;
        const bool trained = first ? step <= 4 : second ? step >= 4 && step <= 8 : true;
        EXPECT_EQ(at::equal(value, before.at(name)), !trained) << precision << " " << step << " " << name;
        const bool begun = !second || step >= 4;
        EXPECT_EQ(moments.at("exp_avg_sq." + name).any().item<bool>(), begun) << step << " " << name;
      }
    }
    EXPECT_EQ(test::metrics_of(folder)[3]["trained_parameters"].get<std::int64_t>(),
              test::metrics_of(folder)[2]["trained_parameters"].get<std::int64_t>() * 2 -
                  test::metrics_of(folder)[9]["trained_parameters"].get<std::int64_t>());
  }
}

// Frozen in all steps or from the first one on: the same weights to the last bit.
TEST_F(TrainedByStep, FrozenForAllStepsIsFrozen) {
  const auto never = run("never", {{"model.trainable", "[embed, norm, 'layers\\.1\\.']"}});
  const auto later = run("later", {{"model.trainable", "[embed, norm, 'layers\\.1\\.', {match: proj, from: 10}]"}});
  for (const auto& [name, value] : saved(never, 10)) EXPECT_TRUE(at::equal(value, saved(later, 10).at(name))) << name;
}

// A weight that begins late is updated as if the run had begun with it: Adam corrects for moments that begin at zero.
TEST_F(TrainedByStep, TheFirstUpdateIsAFirstUpdate) {
  const auto folder =
      run("run", {{"model.trainable", "[{match: lm_head, from: 5}, layers]"}, {"optimizer", kPlainAdam}});
  const at::Tensor change = (saved(folder, 6).at("lm_head.weight") - saved(folder, 5).at("lm_head.weight")).abs();
  EXPECT_NEAR(change.masked_select(change.ne(0)).mean().item<double>(), 1e-3, 1e-5);
  EXPECT_EQ(saved(folder, 5, kMoments).at("exp_avg.lm_head.weight").any().item<bool>(), false);
}

// So it is where the recipe has another list of weights when the run goes on, and however it goes on from there.
TEST_F(TrainedByStep, AnOverriddenListGivesNewWeightsAFirstUpdate) {
  const test::Overrides late{{"model.trainable", "[layers]"}, {"optimizer", kPlainAdam}, {"trainer.steps", "4"}};
  const test::Overrides more{
      {"model.trainable", "[lm_head, layers]"}, {"optimizer", kPlainAdam}, {"trainer.steps", "8"}};
  TrainOptions options = test::quiet_options();
  options.override_keys = {"model.trainable"};
  for (const char* name : {"whole", "parts"}) run(name, late);
  run("whole", more, options);
  const at::Tensor change =
      (saved(folder_ / "whole", 5).at("lm_head.weight") - saved(folder_ / "whole", 4).at("lm_head.weight")).abs();
  EXPECT_NEAR(change.masked_select(change.ne(0)).mean().item<double>(), 1e-3, 1e-5);
  test::Overrides part = more;
  part.back().second = "6";
  run("parts", part, options);
  run("parts", more);
  EXPECT_TRUE(
      at::equal(saved(folder_ / "parts", 8).at("lm_head.weight"), saved(folder_ / "whole", 8).at("lm_head.weight")));
}

// The number of updates by which Adam has corrected the last one of this weight.
std::int64_t updates_that_fit(const ByName& before, const ByName& after, const ByName& moments,
                              const std::string& weight) {
  const at::Tensor change = (before.at(weight) - after.at(weight)).to(at::kDouble);
  const at::Tensor mean = moments.at("exp_avg." + weight).to(at::kDouble);
  const at::Tensor square = moments.at("exp_avg_sq." + weight).to(at::kDouble);
  std::vector<double> off;
  for (int t = 1; t < 10; ++t) {
    const at::Tensor expected = 1e-3 * (mean / (1 - std::pow(0.9, t))) / (square / (1 - std::pow(0.999, t))).sqrt();
    off.push_back((change - expected).nan_to_num().abs().max().item<double>());
  }
  return std::min_element(off.begin(), off.end()) - off.begin() + 1;
}

constexpr const char *kMlp = "model.layers.0.mlp.gate_proj.weight",
                     *kAttention = "model.layers.0.self_attn.q_proj.weight";

// Moments stay with their weights, and so does the number of updates that they have had.
TEST_F(TrainedByStep, OtherStepsKeepTheUpdatesThatEachWeightHasHad) {
  const test::Overrides adam{{"optimizer", kPlainAdam}};
  const auto with = [&](const std::string& trainable, int steps) {
    test::Overrides all = adam;
    all.insert(all.end(), {{"model.trainable", trainable}, {"trainer.steps", std::to_string(steps)}});
    return all;
  };
  const std::string late = "[norm, {match: attn}, {match: mlp, from: 3}]";
  run("same", with(late, 7));
  TrainOptions options = test::quiet_options();
  options.override_keys = {"model.trainable"};
  const std::vector<std::pair<std::string, std::string>> others{
      {"longer", "[norm, {match: attn}, {match: mlp, from: 3, until: 100}]"},
      {"none", "[norm, attn, mlp]"},
      {"from_the_start", "[norm, {match: mlp}, {match: attn, until: 50}]"}};
  for (const auto& [name, other] : others) {
    SCOPED_TRACE(name);
    run(name, with(late, 4));
    run(name, with(other, 5), options);
    EXPECT_EQ(updates_that_fit(saved(folder_ / name, 4), saved(folder_ / name, 5), saved(folder_ / name, 5, kMoments),
                               kMlp),
              2);
    run(name, with(late, 7), options);  // and back
    for (const auto& [weight, value] : saved(folder_ / "same", 7))
      EXPECT_TRUE(at::equal(value, saved(folder_ / name, 7).at(weight))) << weight;
  }
}

// A weight that always was trained goes on where it is told to wait.
TEST_F(TrainedByStep, StepsThatAreNewKeepTheUpdatesOfAWeightThatHadAll) {
  TrainOptions options = test::quiet_options();
  options.override_keys = {"model.trainable"};
  run("run", {{"model.trainable", "[norm, attn, mlp]"}, {"optimizer", kPlainAdam}, {"trainer.steps", "3"}});
  run("run",
      {{"model.trainable", "[norm, attn, {match: mlp, from: 5}]"}, {"optimizer", kPlainAdam}, {"trainer.steps", "6"}},
      options);
  const auto fit = [&](const char* weight) {
    return updates_that_fit(saved(folder_ / "run", 5), saved(folder_ / "run", 6), saved(folder_ / "run", 6, kMoments),
                            weight);
  };
  EXPECT_EQ(fit(kMlp), 4);
  EXPECT_EQ(fit(kAttention), 6);
}

TEST_F(TrainedByStep, ANewRunTakesTheUpdatesOfTheOptimizerThatItTakes) {
  const std::string late = "[norm, {match: attn}, {match: mlp, from: 3}]";
  run("old", {{"model.trainable", late}, {"optimizer", kPlainAdam}, {"trainer.steps", "4"}});
  const std::string model = fmt::format("{{path: {}, load: {{optimizer: true}}", (folder_ / "old").string());
  const std::vector<std::pair<std::string, std::string>> lists{
      {"all", "[norm, attn, mlp]"}, {"turns", "[norm, {match: attn, until: 5}, {match: mlp, until: 9}]"}};
  for (const auto& [name, list] : lists) {
    SCOPED_TRACE(name);
    run(name, {{"model", model + ", trainable: " + list + "}"}, {"optimizer", kPlainAdam}, {"trainer.steps", "2"}});
    const auto fit = [&, &name = name](const char* weight) {
      return updates_that_fit(saved(folder_ / name, 1), saved(folder_ / name, 2), saved(folder_ / name, 2, kMoments),
                              weight);
    };
    EXPECT_EQ(fit(kMlp), 3);
    EXPECT_EQ(fit(kAttention), 6);
  }
}

// An average without a schedule begins with a weight's first update, and counts its own updates alone.
TEST_F(TrainedByStep, AnAverageWithoutAScheduleBeginsWithTheFirstUpdate) {
  const auto folder = run("run", {{"model.trainable", "[{match: mlp, from: 3, until: 6}, {match: mlp, from: 8}, attn]"},
                                  {"optimizer", "{type: adamw_schedule_free, learning_rate: 1e-3}"}});
  const auto fastest = [&](std::int64_t step) {
    return saved(folder, step, kMoments).at("z." + std::string(kMlp)).to(at::kDouble);
  };
  const std::map<std::int64_t, int> updates{{4, 1}, {5, 2}, {6, 3}, {9, 4}, {10, 5}};
  at::Tensor average;
  for (const auto& [step, count] : updates) {
    average = count == 1 ? fastest(step) : average.lerp(fastest(step), 1.0 / count);
    EXPECT_LT((saved(folder, step).at(kMlp).to(at::kDouble) - average).abs().max().item<double>(), 1e-7) << step;
  }
}

TEST_F(TrainedByStep, AResumedRunIsTheUninterruptedOne) {
  for (const char* precision : {"fp32", "bf16"})
    for (const char* optimizer :
         {"adamw", "muon", "galore_adamw", "apollo", "adafactor", "lion", "prodigy", "adamw_schedule_free"}) {
      const std::string name = std::string(precision) + optimizer;
      const test::Overrides overrides{{"model.trainable", kTurns},
                                      {"trainer.precision", precision},
                                      {"trainer.ema", optimizer == std::string("lion") ? "0.9" : "0"},
                                      {"trainer.accumulate", "2"},
                                      {"optimizer", "{type: " + std::string(optimizer) + ", learning_rate: 1e-3}"}};
      const auto whole = run(name, overrides);
      for (const int from : {2, 3, 5, 9}) {
        SCOPED_TRACE(name + " from " + std::to_string(from));
        const std::string part = name + std::to_string(from);
        std::filesystem::copy(whole, folder_ / part,
                              std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
        for (int step = 10; step > from; --step) std::filesystem::remove_all(folder_ / part / test::step_folder(step));
        run(part, overrides);
        test::expect_equal_runs(whole, folder_ / part, 10);
        std::filesystem::remove_all(folder_ / part);
      }
    }
}

TEST_F(TrainedByStep, WhatCannotBeIsRefused) {
  EXPECT_HONE_ERROR(run("none", {{"model.trainable", "[{match: layers, from: 2}]"}}), config,
                    "model.trainable: nothing is trained in step 1 of 10");
  EXPECT_HONE_ERROR(run("none", {{"model.trainable", "[{match: layers, until: 4}, {match: embed, from: 6}]"}}), config,
                    "model.trainable: nothing is trained in step 5 of 10");
  EXPECT_HONE_ERROR(run("none", {{"model.trainable", "[{match: layers, from: 4, until: 4}]"}}), config,
                    "model.trainable.0.until: got 4, expected more than from 4");
  EXPECT_HONE_ERROR(run("none", {{"model.trainable", "[{from: 4}]"}}), config, "model.trainable.0.match: missing");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none/config.yaml"));
}

class TrainedByStepTogether : public test::Together {};

TEST_F(TrainedByStepTogether, RanksTrainTheSameWeightsAndSharesAreRefused) {
  const test::Overrides turns{{"model.trainable", "[{match: 'layers\\.0\\.', from: 3}, 'layers\\.1\\.']"}};
  run(1, "one", turns);
  run(2, "two", turns);
  expect_close(in("one"), in("two"), 1e-9);
  test::Overrides shared = turns;
  shared.emplace_back("parallel.fsdp", "2");
  EXPECT_HONE_ERROR(run(2, "shared", shared), config, "model.trainable: weights that are trained in some steps only");
}

}  // namespace
}  // namespace hone
