// What stands beside a model and is none: its weights are read, visited and grouped with the model's.
#include "hub/load_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "harness/errors.h"
#include "harness/files.h"
#include "models/write_tensors.h"
#include "nn/prefix_scores.h"
#include "nn/vector_module.h"
#include "nn/weight_groups.h"

namespace hone::test {
namespace {

std::shared_ptr<nn::VectorModule> dense() {
  return std::make_shared<nn::VectorModule>(nn::VectorModuleForm{.in = 3, .out = 2});
}

TEST(LoadModule, FillsEachWeightInItsType) {
  const TempFolder root;
  const Tensor weight = at::randn({2, 3}), bias = at::randn({2});
  write_tensors(root / "model.safetensors", {{"linear.weight", weight}, {"linear.bias", bias}});
  const auto module = dense();
  hub::load_module(*module, root.path(), Precision::bf16);
  std::map<std::string, Tensor> read;
  module->each_weight([&](const std::string& name, Weight& one) { read[name] = one.use().detach(); });
  EXPECT_TRUE(at::equal(read.at("linear.weight"), weight.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(read.at("linear.bias"), bias.to(at::kBFloat16)));
}

TEST(LoadModule, IsStrictAboutNamesAndShapes) {
  const TempFolder root;
  const auto load = [&](const std::map<std::string, Tensor>& tensors) {
    write_tensors(root / "model.safetensors", tensors);
    hub::load_module(*dense(), root.path(), Precision::fp32);
  };
  EXPECT_HONE_ERROR(load({{"linear.weight", at::ones({2, 3})}, {"linear.offset", at::ones({2})}}), checkpoint,
                    "a tensor is missing: \"linear.bias\"; a tensor is not the model's: \"linear.offset\"");
  EXPECT_HONE_ERROR(load({{"linear.weight", at::ones({3, 2})}, {"linear.bias", at::ones({2})}}), checkpoint,
                    "linear.weight: got shape [3, 2], expected [2, 3]");
}

TEST(LoadModule, WhatStandsBesideAModelIsTrainedWithIt) {
  const std::string file = "tests/golden/models/llama/config.json";
  const std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  std::set<std::string> own, all, root;
  model->each_weight([&](const std::string& name, Weight&) { own.insert(name); });
  model->set_beside("2_Dense", dense());
  model->set_beside("value_model", build_model(config::read_file(file), file));
  model->each_with_adapters([&](const std::string& name, Weight&) { all.insert(name); });
  EXPECT_EQ(all.size(), 2 * own.size() + 2);
  EXPECT_TRUE(all.contains("2_Dense.linear.bias"));
  const std::vector<nn::WeightGroup> groups = nn::weight_groups(*model);
  for (const nn::GroupedWeight& one : groups.front().weights) root.insert(one.name);
  EXPECT_TRUE(root.contains("2_Dense.linear.weight"));
  EXPECT_FALSE(nn::model_beside(*model, "2_Dense"));
  EXPECT_TRUE(nn::model_beside(*model, "value_model"));
  ASSERT_EQ(nn::vector_modules(*model).size(), 1u);
  EXPECT_EQ(nn::vector_modules(*model)[0].name, "2_Dense");
}

}  // namespace
}  // namespace hone::test
