// Callbacks that look on: what they say is so, and training does not notice them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "train/support.h"

namespace hone {
namespace {

class Observers : public ::testing::Test {
 protected:
  std::vector<nlohmann::json> run(const std::string& name, const std::string& callbacks,
                                  const test::Overrides& more = {}) {
    test::Overrides overrides{{"run.folder", (folder_ / name).string()}, {"callbacks", callbacks}};
    overrides.insert(overrides.end(), more.begin(), more.end());
    last_ = train(test::small_recipe(folder_, overrides), test::quiet_options());
    std::vector<nlohmann::json> lines;
    for (const auto& line : test::metrics_of(folder_ / name))
      if (line.contains("loss")) lines.push_back(line);
    return lines;
  }
  std::vector<nlohmann::json> histograms(const std::string& name) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder_ / name / "histograms.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  test::TempFolder folder_;
  Summary last_;
};

constexpr const char* kAll =
    "[{type: norms, every: 1, updates: true}, {type: histograms, every: 5, gradients: true, bins: 7}, trigger_file]";

TEST_F(Observers, ChangeNoNumberOfTheRun) {
  const auto off = run("off", "[]"), on = run("on", kAll);
  ASSERT_EQ(off.size(), on.size());
  for (std::size_t i = 0; i < off.size(); ++i)
    for (const char* name : {"loss", "grad_norm", "learning_rate"}) EXPECT_EQ(on[i][name], off[i][name]) << i;
  EXPECT_FALSE(off.back().contains("param_norm"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "off/histograms.jsonl"));
}

TEST_F(Observers, NormsAreThoseOfTheWeightsAndGradients) {
  const auto lines = run("norms", kAll);
  const auto weights = test::read_tensors(folder_ / "norms" / test::step_folder(10) / "model.safetensors");
  double squares = 0;
  for (const auto& [name, value] : weights) {
    const double norm = value.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(lines.back()["param_norm_" + name].get<double>(), norm, 1e-5 * norm) << name;
    squares += norm * norm;
  }
  EXPECT_NEAR(lines.back()["param_norm"].get<double>(), std::sqrt(squares), 1e-5 * std::sqrt(squares));
  for (const nlohmann::json& line : lines) {
    double together = 0, largest = 0, sum = 0;
    for (const auto& [name, value] : weights) {
      const double norm = line["grad_norm_" + name];
      together += norm * norm, largest = std::max(largest, norm), sum += norm;
    }
    EXPECT_NEAR(std::sqrt(together), line["grad_norm"].get<double>(), 1e-5 * std::sqrt(together));
    EXPECT_EQ(line["max_grad_norm"], largest);
    EXPECT_NEAR(line["mean_grad_norm"].get<double>(), sum / static_cast<double>(weights.size()), 1e-9);
  }
}

// Plain gradient descent moves the weights by learning rate times gradient.
TEST_F(Observers, UpdatesAreWhatAStepChanges) {
  const auto lines = run("updates", "[{type: norms, every: 1, updates: true, each: false}]",
                         {{"optimizer", "{type: sgd, learning_rate: 0.1, schedule: constant, weight_decay: 0}"},
                          {"trainer.max_grad_norm", "0"}});
  for (const nlohmann::json& line : lines) {
    const double expected = 0.1 * line["grad_norm"].get<double>();
    EXPECT_NEAR(line["update_norm"].get<double>(), expected, 1e-4 * expected);
    EXPECT_FALSE(line.contains("update_norm_lm_head.weight"));
  }
}

TEST_F(Observers, NormsAreMeasuredWhereAndWhenTheyAreWanted) {
  const auto lines = run("some", "[{type: norms, every: 3, match: 'layers\\.1\\.', gradients: false}]");
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line.contains("param_norm"), line["step"].get<int>() % 3 == 0) << line;
    EXPECT_FALSE(line.contains("param_norm_lm_head.weight"));
    EXPECT_FALSE(line.contains("max_grad_norm"));
  }
  EXPECT_TRUE(lines[2].contains("param_norm_model.layers.1.mlp.down_proj.weight"));
  EXPECT_HONE_ERROR(run("none", "[{type: norms, match: '['}]"), config, "expected a regular expression");
}

TEST_F(Observers, WhatFitsNothingIsToldBeforeTheRun) {
  const auto refuses = [&](const std::string& callback, const std::string& why, const test::Overrides& more = {}) {
    EXPECT_HONE_ERROR(run("refused", "[{type: " + callback + "}]", more), config, why);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "refused/config.yaml"));
  };
  refuses("norms, match: atention", "callback norms: match: \"atention\" is found in the name of no trained weight");
  refuses("histograms, match: atention", "callback histograms: match: ");
  refuses("norms, match: mlp", "callback norms: match: ", {{"model.trainable", "[lm_head]"}});
  refuses("profiler, start: 11", "callback profiler: start: got 11 of 10 steps");
}

TEST_F(Observers, IntermediatesThatThereAreNotAreAWarning) {
  std::string said;
  log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
  run("none", "[{type: intermediates, match: atention}]");
  run("some", "[{type: intermediates, match: 'layers\\.0'}]");
  log::set_sink({});
  const char* expected = "callback intermediates: \"atention\" is found in the name of nothing that layers hand out: "
                         "\"layers.0.attention\", ";
  EXPECT_NE(said.find(expected), std::string::npos) << said;
  EXPECT_EQ(said.find("layers\\.0"), std::string::npos) << said;
}

TEST_F(Observers, HistogramsCountEveryElement) {
  run("histograms", kAll);
  const auto weights = test::read_tensors(folder_ / "histograms" / test::step_folder(10) / "model.safetensors");
  std::size_t seen = 0;
  for (const nlohmann::json& line : histograms("histograms")) {
    const at::Tensor value = weights.at(line["name"].get<std::string>());
    std::int64_t sum = 0;
    for (const nlohmann::json& count : line["counts"]) sum += count.get<std::int64_t>();
    EXPECT_EQ(sum, value.numel()) << line["name"];
    EXPECT_EQ(line["counts"].size(), 7u);
    if (line["step"] != 10 || line["of"] != "weight") continue;
    EXPECT_EQ(line["min"], value.min().item<float>());
    EXPECT_EQ(line["max"], value.max().item<float>());
    EXPECT_NEAR(line["std"].get<double>(), value.std(false).item<double>(), 1e-6);
    ++seen;
  }
  EXPECT_EQ(seen, weights.size());
}

TEST_F(Observers, AResumedRunHasNoHistogramTwice) {
  run("whole", kAll);
  run("again", kAll, {{"trainer.steps", "7"}, {"optimizer.schedule", "constant"}});
  std::filesystem::remove_all(folder_ / "again" / test::step_folder(7));  // as if it had been killed after step 5
  run("again", kAll, {{"trainer.steps", "10"}, {"optimizer.schedule", "constant"}});
  std::map<std::pair<int, std::string>, int> lines;
  for (const nlohmann::json& line : histograms("again"))
    ++lines[{line["step"].get<int>(), line["of"].get<std::string>() + line["name"].get<std::string>()}];
  for (const auto& [line, count] : lines) EXPECT_EQ(count, 1) << line.second;
  EXPECT_EQ(lines.size(), histograms("whole").size());
}

TEST_F(Observers, ATriggerFileIsObeyedOnceAndDeleted) {
  folder_.write("triggered/STOP", "");
  run("triggered", "[{type: trigger_file, file: STOP, action: stop}]");
  EXPECT_EQ(last_.reason, StopReason::callback);
  EXPECT_EQ(last_.step, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "triggered/STOP"));
  EXPECT_HONE_ERROR(run("bad", "[{type: trigger_file, file: run.json}]"), config, "of none of the run's own files");
}

TEST_F(Observers, ATriggerFileSaves) {
  folder_.write("saved/SAVE", "");
  run("saved", "[trigger_file]", {{"trainer.save.every", "0"}});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "saved" / test::step_folder(1) / "MANIFEST.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "saved" / test::step_folder(2)));
}

}  // namespace
}  // namespace hone
