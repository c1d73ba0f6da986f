// How long a run is, when it evaluates, and which updates it leaves out.
#include <gtest/gtest.h>

#include "config/duration.h"
#include "train/spikes.h"
#include "train/support.h"

namespace hone {
namespace {

class Targets : public ::testing::Test {
 protected:
  Summary run(test::Overrides overrides, const std::string& folder = "run") {
    overrides.emplace_back("run.folder", (folder_ / folder).string());
    return train(test::small_recipe(folder_, overrides), test::quiet_options());
  }
  std::vector<std::int64_t> evaluated(const std::string& folder = "run") {
    std::vector<std::int64_t> steps;
    for (const auto& line : test::metrics_of(folder_ / folder))
      if (line.contains("eval_loss")) steps.push_back(line["step"].get<std::int64_t>());
    return steps;
  }
  std::map<std::string, at::Tensor> tensors(const std::string& folder, std::int64_t step, const std::string& file) {
    return test::read_tensors(folder_ / folder / test::step_folder(step) / file);
  }
  test::TempFolder folder_;
};

constexpr const char* kSavedState = "state/optimizer-00000-of-00001.safetensors";

TEST(Duration, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(config::seconds_of("2h30m"), 9000);
  EXPECT_EQ(config::seconds_of("90 min"), 5400);
  EXPECT_EQ(config::seconds_of("1d 12h"), 129600);
  EXPECT_EQ(config::seconds_of("1.5 hours"), 5400);
  EXPECT_EQ(config::seconds_of("45s"), 45);
  for (const char* none : {"", "90", "2h30", "h", "-5m", "5 parsecs", "1e3s", "2h 30m!", "0s"})
    EXPECT_EQ(config::seconds_of(none), std::nullopt) << none;
}

TEST_F(Targets, ATokenTargetIsThatManyTokens) {
  const Summary summary = run({{"trainer.steps", "null"}, {"trainer.tokens", "1500"}});
  EXPECT_EQ(summary.step, summary.steps);
  EXPECT_NEAR(static_cast<double>(summary.tokens), 1500, 300);
}

TEST_F(Targets, TimeIsUpAndTheSameCommandGoesOn) {
  const test::Overrides options{{"trainer.steps", "100000"},
                                {"trainer.save.every", "0"},
                                {"trainer.eval_every", "0"},
                                {"trainer.time_limit", "1s"}};
  const Summary first = run(options);
  EXPECT_TRUE(first.interrupted());
  EXPECT_EQ(first.stopped_by, "the time limit of 1s");
  EXPECT_GT(first.step, 0);
  const Summary second = run(options);
  EXPECT_EQ(second.resumed_from, first.step);
  EXPECT_GT(second.step, first.step);
}

TEST_F(Targets, EvaluationAtTheStartAndAfterEpochs) {
  run({{"trainer.eval_at_start", "true"}});
  EXPECT_EQ(evaluated(), (std::vector<std::int64_t>{0, 5, 10}));
  const Summary summary = run({{"trainer.steps", "null"},
                               {"trainer.epochs", "4"},
                               {"trainer.eval_every", "0"},
                               {"trainer.eval_every_epochs", "2"}},
                              "epochs");
  EXPECT_EQ(evaluated("epochs"), (std::vector<std::int64_t>{(summary.steps + 1) / 2, summary.steps}));
}

TEST_F(Targets, EvaluationAfterEpochsThatEndWithinAStep) {
  run({{"trainer.eval_every", "0"},
       {"trainer.eval_every_epochs", "3"},
       {"trainer.accumulate", "64"},
       {"trainer.steps", "6"}},
      "long");
  double before = 0;
  std::vector<std::int64_t> expected;
  for (const nlohmann::json& line : test::metrics_of(folder_ / "long")) {
    if (!line.contains("loss")) continue;
    const double epoch = line["epoch"];
    if (std::floor(epoch / 3) > std::floor(before / 3) || line["step"] == 6) expected.push_back(line["step"]);
    EXPECT_GT(epoch, before + 1) << "a step is longer than an epoch";
    before = epoch;
  }
  EXPECT_EQ(evaluated("long"), expected);
  EXPECT_GT(expected.size(), 2u);
}

TEST(Spikes, AreFarAboveTheMeanOfAFullWindow) {
  const SpikeSection options{.sigma = 3, .window = 4};
  std::vector<double> norms;
  for (const double norm : {1.0, 100.0, 1.0, 1.1}) EXPECT_FALSE(training::is_spike(options, norm, norms));
  norms = {1.0, 1.1, 0.9, 1.0};
  EXPECT_FALSE(training::is_spike(options, 1.2, norms));
  EXPECT_TRUE(training::is_spike(options, 2.0, norms));
  EXPECT_EQ(norms, (std::vector<double>{0.9, 1.0, 1.2, 2.0}));
  EXPECT_FALSE(training::is_spike({}, 1e9, norms));
}

TEST_F(Targets, SpikesAreLeftOutAndCounted) {
  const Summary summary = run({{"trainer.skip_spikes", "{sigma: 0.01, window: 2}"}});
  EXPECT_GT(summary.warnings, 0);
  const auto state = test::read_json(folder_ / "run" / test::step_folder(10) / "state/train.json");
  const auto spikes = state["spikes"].get<std::int64_t>();
  EXPECT_GT(spikes, 0);
  EXPECT_EQ(state["updates"].get<std::int64_t>(), 10 - spikes);
}

// One update of plain gradient descent: no element moves further than learning rate times the limit.
TEST_F(Targets, GradientsAreCutOffByValue) {
  const test::Overrides options{{"trainer.steps", "1"},
                                {"optimizer", "{type: sgd, learning_rate: 1, schedule: constant}"}};
  const auto moved = [&](const std::string& folder, const test::Overrides& more) {
    test::Overrides both = options;
    both.insert(both.end(), more.begin(), more.end());
    run(both, folder);
    return tensors(folder, 1, "model.safetensors").at("lm_head.weight");
  };
  const at::Tensor still = moved("still", {{"optimizer", "{type: sgd, learning_rate: 0, schedule: constant}"}});
  const at::Tensor free = moved("free", {}), cut = moved("cut", {{"trainer.max_grad_value", "1e-3"}});
  EXPECT_GT((free - still).abs().max().item<double>(), 2e-3);
  EXPECT_NEAR((cut - still).abs().max().item<double>(), 1e-3, 1e-6);
}

// What is evaluated and saved is the average; what is trained is kept beside it.
TEST_F(Targets, AnAverageIsEvaluatedAndSaved) {
  for (const std::string precision : {"fp32", "bf16"}) {
    run({{"trainer.ema", "0.5"}, {"trainer.precision", precision}}, "average" + precision);
    run({{"trainer.precision", precision}}, "plain" + precision);
    const auto model = tensors("average" + precision, 10, "model.safetensors");
    const auto state = tensors("average" + precision, 10, kSavedState);
    const auto plain = tensors("plain" + precision, 10, precision == "fp32" ? "model.safetensors" : kSavedState);
    for (const auto& [name, tensor] : model) {
      EXPECT_TRUE(at::equal(tensor, state.at("ema." + name).to(tensor.scalar_type()))) << name;
      EXPECT_TRUE(at::equal(state.at("master." + name), plain.at((precision == "fp32" ? "" : "master.") + name)))
          << name;
    }
    EXPECT_FALSE(at::equal(model.at("lm_head.weight").to(at::kFloat), state.at("master.lm_head.weight")));
    const auto loss = [&](const std::string& folder) {
      return test::metrics_of(folder_ / (folder + precision)).back()["eval_loss"].get<double>();
    };
    EXPECT_NE(loss("average"), loss("plain"));
  }
}

TEST_F(Targets, AnOptimizerThatAveragesTakesNoSecondAverage) {
  EXPECT_HONE_ERROR(run({{"trainer.ema", "0.5"}, {"optimizer", "adamw_schedule_free"}}), config,
                    "averages the weights itself");
}

TEST_F(Targets, SophiaWantsLabelsThatTheModelDraws) {
  run({{"optimizer", "{type: sophia, learning_rate: 1e-3, update_period: 2}"}});
  const auto state = tensors("run", 10, kSavedState);
  EXPECT_GT(state.at("hessian.lm_head.weight").max().item<double>(), 0);
  std::string pairs;
  for (int i = 0; i < 8; ++i) pairs += "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n";
  folder_.write("pairs.jsonl", pairs);
  EXPECT_HONE_ERROR(run({{"optimizer", "sophia"},
                         {"objective", "dpo"},
                         {"data.train", folder_.path() / "pairs.jsonl"},
                         {"trainer.batch_size", "1"},
                         {"data.eval", "{}"},
                         {"trainer.eval_every", "0"}},
                        "dpo"),
                    config, "needs labels that the model can draw");
}

}  // namespace
}  // namespace hone
