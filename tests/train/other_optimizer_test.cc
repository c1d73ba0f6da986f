// Groups of optimizers, and runs that go on with another optimizer or with another average of the weights.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;
using SavedTensors = std::map<std::string, at::Tensor>;

constexpr const char *kState = "state/optimizer-00000-of-00001.safetensors",
                     *kAverage = "{decay: 0.9, warmup: false}";

const std::string kAdam = "{type: adamw, learning_rate: 1e-3, schedule: constant}",
                  kLion = "{type: lion, learning_rate: 1e-4, betas: [0.9, 0.99], schedule: constant}",
                  kFree = "{type: adamw_schedule_free, learning_rate: 1e-3}",
                  kProdigy = "{type: prodigy, d0: 1e-3, schedule: constant}";

class OtherOptimizer : public ::testing::Test {
 protected:
  // In `name`, up to a step; each step is saved.
  std::filesystem::path run(const std::string& name, int steps, Overrides overrides,
                            const std::vector<std::string>& override_keys = {}) {
    overrides.insert(overrides.begin(), {{"run.folder", (folder_ / name).string()},
                                         {"trainer.steps", std::to_string(steps)},
                                         {"trainer.save.every", "1"},
                                         {"trainer.eval_every", "0"},
                                         {"optimizer", kAdam}});
    TrainOptions options = test::quiet_options();
    options.override_keys = override_keys;
    train(test::small_recipe(folder_, overrides), options);
    return folder_ / name;
  }
  SavedTensors saved(const std::string& name, std::int64_t step, const char* file = "model.safetensors") {
    return test::read_tensors(folder_ / name / test::step_folder(step) / file);
  }
  nlohmann::json state_of(const std::string& name, std::int64_t step) {
    return test::read_json(folder_ / name / test::step_folder(step) / "state/train.json");
  }
  void expect_same(const SavedTensors& one, const SavedTensors& other) {
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [name, value] : one) EXPECT_TRUE(at::equal(value, other.at(name))) << name;
  }
  test::TempFolder folder_;
};

// Two groups, the mlp's and the rest's.
Overrides two(const std::string& mlp, const std::string& rest) {
  return {{"optimizer", fmt::format("{{type: groups, groups: [{{name: a, match: mlp, optimizer: {}}}, {{name: b, "
                                    "optimizer: {}}}]}}",
                                    mlp, rest)}};
}

TEST_F(OtherOptimizer, GroupsOfOneKindAreSavedAndGoOn) {
  const std::string inner = two(kProdigy, kFree)[0].second;
  const std::string within = fmt::format(
      "{{type: groups, groups: [{{name: a, match: 'layers\\.0', optimizer: {0}}}, "
      "{{name: b, match: 'layers\\.1', optimizer: {0}}}, {{name: c, optimizer: {1}}}]}}",
      inner, kProdigy);
  const std::vector<std::pair<std::string, Overrides>> kinds{
      {"free", two(kFree, kFree)}, {"prodigy", two(kProdigy, kProdigy)}, {"within", {{"optimizer", within}}}};
  for (const auto& [name, optimizer] : kinds) {
    SCOPED_TRACE(name);
    run(name, 5, optimizer);
    run(name + "-parts", 2, optimizer);
    run(name + "-parts", 5, optimizer);
    expect_same(saved(name, 5, kState), saved(name + "-parts", 5, kState));
    expect_same(saved(name, 5), saved(name + "-parts", 5));
  }
}

// An optimizer whose two numbers have one name.
class TwiceNamed final : public Optimizer {
 public:
  struct Config {
    double rate = 1;
    static constexpr auto fields() { return std::tuple{field("rate", &Config::rate, "Rate.")}; }
  };
  explicit TwiceNamed(const Config&) {}
  void attach(std::span<OptimizedWeight>) override { one_ = at::zeros({1}), other_ = at::zeros({1}); }
  void update(std::span<OptimizedWeight>, const UpdateStep&) override {}
  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override {
    visit("number", one_), visit("number", other_);
  }
  double learning_rate(std::int64_t, std::int64_t) const override { return 1; }

 private:
  Tensor one_, other_;
};

TEST_F(OtherOptimizer, WhatCouldNotBeSavedIsRefusedBeforeTheRun) {
  if (registries().optimizers.find("twice_named") == nullptr)
    registries().optimizers.add<TwiceNamed>("twice_named", "Two numbers of one name.");
  EXPECT_HONE_ERROR(run("run", 2, {{"optimizer", "{type: twice_named}"}}), config,
                    "optimizer: two tensors of its state are called \"number\"");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/metrics.jsonl"));
}

at::Tensor gradient_of(const SavedTensors& before, const SavedTensors& after, const std::string& weight) {
  return (after.at("exp_avg." + weight) - 0.9 * before.at("exp_avg." + weight)) / 0.1;
}

constexpr const char* kUp = "model.layers.1.mlp.up_proj.weight";

// Neither is Adam's mean of gradients taken for Lion's, nor does the group that stays begin afresh.
TEST_F(OtherOptimizer, AnotherOneInAGroupBeginsAfreshThere) {
  const auto wide = [](const std::string& mlp) {  // adamw_8bit keeps the state of small weights as AdamW does
    Overrides all = two(mlp, kAdam);
    all.emplace_back("model.intermediate_size", "128");
    return all;
  };
  run("adam", 5, wide(kAdam));
  const SavedTensors before = saved("adam", 4, kState), after = saved("adam", 5, kState);
  for (const std::string& other : {kLion, std::string("{type: adamw_8bit, learning_rate: 1e-3}"), kFree, kProdigy}) {
    SCOPED_TRACE(other);
    std::filesystem::remove_all(folder_ / "other");
    run("other", 4, wide(kAdam));
    run("other", 5, wide(other), {"optimizer"});
    const nlohmann::json state = state_of("other", 5);
    EXPECT_EQ(state["updates"], 5);
    const SavedTensors tensors = saved("other", 5, kState);
    for (const auto& [name, value] : after)
      if (name.find("mlp") == name.npos) {
        EXPECT_TRUE(at::equal(value, tensors.at(name))) << name;
      }
    for (const auto& [weight, updates] : state.at("own_updates").items()) {
      EXPECT_NE(weight.find("mlp"), weight.npos) << weight;
      EXPECT_EQ(updates, 1) << weight;
    }
    EXPECT_EQ(state.at("own_updates").size(), 6u);
  }
  run("lion", 4, wide(kAdam));
  run("lion", 5, wide(kLion), {"optimizer"});
  const at::Tensor mean = saved("lion", 5, kState).at(std::string("exp_avg.") + kUp);
  EXPECT_LT((mean - 0.01 * gradient_of(before, after, kUp)).abs().max().item<double>(), 1e-7);
}

// What a group's new optimizer can use goes on, as at the top; so does a weight that comes to the same kind elsewhere.
TEST_F(OtherOptimizer, StateThatIsItsOwnGoesOn) {
  run("same", 5, two(kAdam, kAdam));
  const std::vector<std::pair<std::string, Overrides>> others{
      {"adam", two("{type: adam, learning_rate: 1e-3, schedule: constant}", kAdam)}, {"one", {{"optimizer", kAdam}}}};
  for (const auto& [name, optimizer] : others) {
    SCOPED_TRACE(name);
    run(name, 4, two(kAdam, kAdam));
    run(name, 5, optimizer, {"optimizer"});
    EXPECT_FALSE(state_of(name, 5).contains("own_updates"));
    EXPECT_EQ(state_of(name, 5)["updates"], 5);
    const std::string moment = std::string("exp_avg.") + kUp;
    EXPECT_TRUE(at::equal(saved("same", 5, kState).at(moment), saved(name, 5, kState).at(moment)));
  }
  run("split", 4, {{"optimizer", kAdam}});
  run("split", 5, two(kLion, kAdam), {"optimizer"});
  EXPECT_EQ(state_of("split", 5)["own_updates"].size(), 6u);
}

// Numbers that are of a group and of no weight, by the group's name.
TEST_F(OtherOptimizer, AGroupsOwnNumbersStayWithIt) {
  run("same", 5, two(kProdigy, kAdam));
  run("run", 4, two(kProdigy, kAdam));
  run("run", 5, two(kProdigy, kProdigy), {"optimizer"});
  EXPECT_TRUE(at::equal(saved("run", 5, kState).at("prodigy/a"), saved("same", 5, kState).at("prodigy/a")));
  EXPECT_FALSE(at::equal(saved("run", 5, kState).at("prodigy/b"), saved("same", 5, kState).at("prodigy/a")));
  run("run", 6, two(kAdam, kProdigy), {"optimizer"});
  const SavedTensors last = saved("run", 6, kState);
  EXPECT_TRUE(last.contains("prodigy/b") && !last.contains("prodigy/a"));
  EXPECT_EQ(state_of("run", 6)["own_updates"].size(), saved("run", 6).size());
}

// Where it has other weights now, what it has guessed from all of those before would be wrong by far.
TEST_F(OtherOptimizer, AGroupsOwnNumbersAreOfItsWeights) {
  run("same", 5, two(kProdigy, kAdam));
  run("renamed", 4, two(kProdigy, kAdam));
  const std::string renamed = fmt::format(
      "{{type: groups, groups: [{{name: c, match: mlp, optimizer: {}}}, {{name: b, optimizer: {}}}]}}", kProdigy,
      kAdam);
  run("renamed", 5, {{"optimizer", renamed}}, {"optimizer"});
  EXPECT_TRUE(at::equal(saved("renamed", 5, kState).at("prodigy/c"), saved("same", 5, kState).at("prodigy/a")));
  EXPECT_FALSE(state_of("renamed", 5).contains("own_updates"));
  run("split", 4, {{"optimizer", kProdigy}});
  run("split", 5, two(kProdigy, kProdigy), {"optimizer"});
  EXPECT_EQ(state_of("split", 5)["updates"], 1);
  run("joined", 4, two(kProdigy, kAdam));
  run("joined", 5, {{"optimizer", kProdigy}}, {"optimizer"});
  EXPECT_EQ(state_of("joined", 5)["updates"], 1);
}

TEST_F(OtherOptimizer, AnAverageBeginsWithTheWeightsThatAreTrained) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const std::string plain = std::string("plain") + precision, name = std::string("run") + precision;
    const Overrides run_of{{"trainer.precision", precision}, {"trainer.save.dtype", "fp32"}};
    Overrides averaged = run_of;
    averaged.emplace_back("trainer.ema", kAverage);
    run(plain, 6, run_of);
    run(name, 4, run_of);
    EXPECT_HONE_ERROR(run(name, 6, averaged), config, "(refused)");
    run(name, 6, averaged, {"trainer.ema"});
    const SavedTensors four = saved(plain, 4), five = saved(plain, 5), six = saved(plain, 6), last = saved(name, 6);
    for (const auto& [weight, value] : last) {
      const at::Tensor average = four.at(weight).lerp(five.at(weight), 0.1).lerp(six.at(weight), 0.1);
      EXPECT_LT((value - average).abs().max().item<double>(), 1e-7) << weight;
    }
    EXPECT_FALSE(state_of(name, 6).contains("own_updates"));
  }
}

TEST_F(OtherOptimizer, WithoutItsAverageTheRunGoesOnFromTheWeightsThatAreTrained) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const std::string plain = std::string("plain") + precision, name = std::string("run") + precision;
    const Overrides run_of{{"trainer.precision", precision}};
    Overrides averaged = run_of;
    averaged.emplace_back("trainer.ema", kAverage);
    run(plain, 6, run_of);
    run(name, 4, averaged);
    run(name, 6, run_of, {"trainer.ema"});
    expect_same(saved(plain, 6), saved(name, 6));
    expect_same(saved(plain, 6, kState), saved(name, 6, kState));
  }
}

TEST_F(OtherOptimizer, AnAdaptersAverageBeginsAndEnds) {
  run("base", 1, {});
  const Overrides adapter{{"adapter", "{type: lora, rank: 4}"}, {"model", (folder_ / "base").string()}};
  Overrides averaged = adapter;
  averaged.emplace_back("trainer.ema", kAverage);
  run("plain", 6, adapter);
  run("ended", 4, averaged);
  run("ended", 6, adapter, {"trainer.ema"});
  const char* file = "adapter_model.safetensors";
  expect_same(saved("plain", 6, file), saved("ended", 6, file));
  run("begun", 4, adapter);
  run("begun", 5, averaged, {"trainer.ema"});
  for (const auto& [name, value] : saved("begun", 5, file)) {
    const at::Tensor average = saved("plain", 4, file).at(name).lerp(saved("plain", 5, file).at(name), 0.1);
    EXPECT_LT((value - average).abs().max().item<double>(), 1e-7) << name;
  }
}

// Moments are of the weights that are trained, and so a new run goes on from these.
TEST_F(OtherOptimizer, ANewRunTakesAnOptimizerWithOrWithoutItsAverage) {
  const auto from = [&](const char* old) {
    return Overrides{{"model", fmt::format("{{path: {}, load: {{optimizer: true}}}}", (folder_ / old).string())}};
  };
  run("plain", 4, {});
  run("averaged", 4, {{"trainer.ema", kAverage}});
  run("from_plain", 2, from("plain"));
  run("without", 2, from("averaged"));
  expect_same(saved("from_plain", 2), saved("without", 2));
  expect_same(saved("from_plain", 2, kState), saved("without", 2, kState));
  Overrides more = from("plain");
  more.emplace_back("trainer.ema", kAverage);
  run("with", 1, more);
  for (const auto& [name, value] : saved("with", 1)) {
    const at::Tensor average = saved("plain", 4).at(name).lerp(saved("from_plain", 1).at(name), 0.1);
    EXPECT_LT((value - average).abs().max().item<double>(), 1e-7) << name;
  }
}

}  // namespace
}  // namespace hone
