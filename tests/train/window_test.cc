// What a log line says of the steps since the last one.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "train/metrics.h"

namespace hone::training {
namespace {

StepReport step(double sum, double weight, double grad_norm) {
  StepReport report;
  report.terms["loss"] = {sum, weight};
  report.metrics["accuracy"] = {-sum, weight};
  report.grad_norm = grad_norm;
  return report;
}

constexpr std::array kAll{LogAs::mean_nopostfix, LogAs::mean, LogAs::single, LogAs::max, LogAs::std};

// The numbers of xlstm-jax's own test of its log modes: 20 / 4, then 30 / 2. Its maximum begins at 0; ours does not.
TEST(Window, LogModesHaveTheirExactNumbers) {
  Window window;
  window.add(step(20, 4, 1)), window.add(step(30, 2, 4));
  const Metrics values = window.values(kAll);
  EXPECT_EQ(values.at("loss"), 50.0 / 6);
  EXPECT_EQ(values.at("loss_mean"), 50.0 / 6);
  EXPECT_EQ(values.at("loss_single"), 15);
  EXPECT_EQ(values.at("loss_max"), 15);
  EXPECT_EQ(values.at("loss_std"), 5);
  EXPECT_EQ(values.at("accuracy_max"), -5);
  EXPECT_EQ(values.at("accuracy_mean"), -50.0 / 6);
  EXPECT_EQ(values.at("grad_norm"), 4);
  EXPECT_EQ(values.at("grad_norm_mean"), 2.5);
  EXPECT_EQ(values.at("grad_norm_std"), 1.5);
}

TEST(Window, SaysNoMoreThanIsAskedFor) {
  Window window;
  window.add(step(20, 4, 1));
  for (const auto& [name, value] : window.values()) EXPECT_EQ(name.find("_m"), std::string::npos) << name;
  const std::array one{LogAs::std};
  const Metrics values = window.values(one);
  EXPECT_EQ(values.at("loss_std"), 0);
  EXPECT_FALSE(values.contains("loss_max"));
}

TEST(Window, StepsWithoutLossCountForNothing) {
  Window window;
  StepReport skipped;
  skipped.skipped = true;
  window.add(step(20, 4, 1)), window.add(skipped);
  EXPECT_EQ(window.values(kAll).at("loss_std"), 0);
  EXPECT_EQ(window.values(kAll).at("loss_single"), 5);
}

TEST(Window, WhatCallbacksPutInPlaceOfANumberIsWhatIsSaidOfIt) {
  Window window;
  window.add(step(20, 4, 1)), window.give("loss", 1);
  window.add(step(30, 2, 4)), window.give("loss", 3);
  const Metrics values = window.values(kAll);
  EXPECT_EQ(values.at("loss"), 2);
  EXPECT_EQ(values.at("loss_mean"), 2);
  EXPECT_EQ(values.at("loss_max"), 3);
  EXPECT_EQ(values.at("loss_std"), 1);
}

// A step that is left out (trainer.skip_not_finite) may be the one that is saved.
TEST(Window, GoesOnFromItsTextAfterAStepThatWasNotFinite) {
  const double nan = std::nan("");
  Window window;
  window.add(step(20, 4, 1)), window.add(step(nan, 2, nan));
  const Window again = window_from_json(nlohmann::json::parse(to_json(window).dump()));
  EXPECT_TRUE(std::isnan(again.values().at("grad_norm")));
  EXPECT_TRUE(std::isnan(again.values().at("loss")));
}

TEST(Window, OfASettingALineHasTheLastValue) {
  Window window;
  window.give("rate", 3, LogMode::last), window.give("rate", 1, LogMode::last), window.give("norm", 3),
      window.give("norm", 1);
  Window again = window_from_json(nlohmann::json::parse(to_json(window).dump()));
  EXPECT_EQ(again.values().at("rate"), 1);
  EXPECT_EQ(again.values().at("norm"), 2);
}

TEST(Window, GoesOnFromItsText) {
  Window window;
  window.add(step(20, 4, 1)), window.give("given", 7);
  Window again = window_from_json(to_json(window));
  window.add(step(30, 2, 4)), again.add(step(30, 2, 4));
  EXPECT_EQ(again.values(kAll), window.values(kAll));
}

}  // namespace
}  // namespace hone::training
