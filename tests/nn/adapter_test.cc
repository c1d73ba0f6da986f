// Adapters in each layer: the same as the merged weight, trained alone, and off where the pass says so.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "hone/layers.h"
#include "nn/experts.h"
#include "nn/low_rank.h"
#include "ops/check.h"
#include "tensor/compare.h"

namespace hone::nn {
namespace {

// Numbers in fp32.
Tensor sample(at::IntArrayRef shape, std::uint64_t seed = 1) { return ops::test::sample(shape, at::kFloat, seed); }

const Batch nothing;

void fill(Module& module) {
  std::uint64_t seed = 10;
  module.each_weight([&](const std::string&, Weight& weight) { weight.fill(sample(weight.shape(), ++seed)); });
}

// What `run` gives with the adapters on, after they have been merged, and before any of it.
template <class Run>
void expect_as_merged(Module& module, const std::vector<std::pair<Weight*, test::LowRank::Options>>& adapted,
                      Run&& run) {
  const at::NoGradGuard no_grad;
  Pass on(nothing), off(nothing);
  off.adapter.clear();
  const Tensor plain = run(off);
  std::vector<Tensor> merged, alone;
  for (const auto& [weight, options] : adapted) merged.push_back(test::adapt(*weight, options).merged(weight->use()));
  EXPECT_TRUE(module.has_adapters());
  EXPECT_TRUE(at::equal(run(off), plain));
  const Tensor with = run(on);
  EXPECT_NE(difference(with, plain, 1e-3), "");
  for (std::size_t i = 0; i < adapted.size(); ++i) {
    alone.push_back(adapted[i].first->use().detach());
    adapted[i].first->set_adapter(nullptr), adapted[i].first->fill(merged[i]);
  }
  EXPECT_FALSE(module.has_adapters());
  EXPECT_EQ(difference(with, run(on), 1e-4), "");
  for (std::size_t i = 0; i < adapted.size(); ++i) adapted[i].first->fill(alone[i]);
}

TEST(Adapter, OfALinear) {
  Linear linear(12, 7, {.bias = true});
  fill(linear);
  const Tensor x = sample({2, 5, 12});
  expect_as_merged(linear, {{&linear.weight, {}}}, [&](const Pass& pass) { return linear(x, pass); });
}

TEST(Adapter, OfOneOfSeveralLinearsBehindANorm) {
  struct Parts final : Module {
    RmsNorm& norm = child<RmsNorm>("norm", 12, 1e-6);
    Linear& q = child<Linear>("q", 12, 8, Linear::Options{});
    Linear& v = child<Linear>("v", 12, 8, Linear::Options{});
  } parts;
  fill(parts);
  const Tensor x = sample({1, 5, 12}), y = sample({1, 5, 12}, 3);
  expect_as_merged(parts, {{&parts.v.weight, {}}}, [&](const Pass& pass) {
    Residual sum(x);
    sum += y;
    const auto made = linears(parts.norm(sum), {&parts.q, &parts.v}, pass);
    return at::cat({made[0], made[1], sum.sum()}, -1);
  });
}

TEST(Adapter, OfEachPartOfAnMlp) {
  for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
    SCOPED_TRACE(part);
    GatedMlp mlp({.hidden = 12, .inner = 20});
    fill(mlp);
    Weight* weight = nullptr;
    mlp.each_weight([&](const std::string& name, Weight& w) { weight = name.starts_with(part) ? &w : weight; });
    const Tensor x = sample({1, 5, 12});
    expect_as_merged(mlp, {{weight, {}}}, [&](const Pass& pass) { return mlp(x, pass); });
  }
}

TEST(Adapter, OfATable) {
  Embedding table(9, 6, 0.02);
  fill(table);
  const Tensor ids = at::tensor({3, 0, 8, 3}, at::kLong).view({2, 2});
  expect_as_merged(table, {{&table.weight, {.table = true}}}, [&](const Pass& pass) { return table(ids, pass); });
}

TEST(Adapter, OfAHead) {
  Head head(6, 9, 0.02);
  fill(head);
  Weight* weight = nullptr;
  head.each_weight([&](const std::string&, Weight& w) { weight = &w; });
  const Tensor hidden = sample({2, 3, 6}), labels = at::tensor({3, -100, 8, 0, 1, -100}, at::kLong).view({2, 3});
  const Tensor weights = sample({2, 3}).abs();
  expect_as_merged(head, {{weight, {}}}, [&](const Pass& pass) { return head.logits(hidden, pass); });
  for (const double smoothing : {0.0, 0.1})
    expect_as_merged(head, {{weight, {}}}, [&](const Pass& pass) {
      return head.cross_entropy(hidden, labels, weights, pass, {.label_smoothing = smoothing, .z_loss = 0.01});
    });
}

// A table's adapter is for look-ups; the head uses the table itself.
TEST(Adapter, OfATableDoesNotReachATiedHead) {
  Embedding table(9, 6, 0.02);
  Head head(6, 9, 0.02, &table.weight);
  fill(table);
  const Pass pass(nothing);
  const at::NoGradGuard no_grad;
  const Tensor hidden = sample({2, 6}), before = head.logits(hidden, pass);
  test::adapt(table.weight, {.table = true});
  EXPECT_TRUE(at::equal(head.logits(hidden, pass), before));
}

TEST(Adapter, OfExpertsAndTheirRouter) {
  for (const char* part : {"experts.1.up_proj", "experts.0.down_proj", "gate.weight"}) {
    SCOPED_TRACE(part);
    RoutedMlp mlp({.hidden = 12, .inner = 8, .experts = 4, .per_token = 2, .normalise = true});
    fill(mlp);
    Weight* weight = nullptr;
    mlp.each_weight([&](const std::string& name, Weight& w) { weight = name.starts_with(part) ? &w : weight; });
    const Tensor x = sample({1, 9, 12});
    expect_as_merged(mlp, {{weight, {}}}, [&](const Pass& pass) { return mlp(x, const_cast<Pass&>(pass)); });
  }
}

TEST(Adapter, IsTrainedAndTheWeightBelowIsNot) {
  Linear linear(12, 7, {.bias = true});
  fill(linear);
  linear.each_weight([](const std::string&, Weight& weight) { weight.set_trainable(false); });
  const auto& adapter = test::adapt(linear.weight);
  const Pass pass(nothing);
  linear(sample({2, 12}), pass).square().sum().backward();
  EXPECT_FALSE(linear.weight.grad().defined());
  int weights = 0;
  const_cast<test::LowRank&>(adapter).each_weight([&](const std::string&, Weight& weight) {
    ++weights;
    EXPECT_GT(weight.grad().abs().max().item<float>(), 0);
  });
  EXPECT_EQ(weights, 2);
}

TEST(Adapter, DropsInTrainingOnlyAndByTheSeed) {
  Linear linear(64, 7, {});
  fill(linear);
  test::adapt(linear.weight, {.dropout = 0.5});
  const at::NoGradGuard no_grad;
  const Tensor x = sample({2, 64});
  const auto run = [&](bool training, std::uint64_t seed) {
    Pass pass(nothing);
    pass.training = training, pass.seed = seed;
    return linear(x, pass);
  };
  EXPECT_TRUE(at::equal(run(false, 1), run(false, 2)));
  EXPECT_TRUE(at::equal(run(true, 1), run(true, 1)));
  EXPECT_FALSE(at::equal(run(true, 1), run(true, 2)));
  EXPECT_FALSE(at::equal(run(true, 1), run(false, 1)));
}

TEST(Adapter, ItsWeightsAreNamedAfterTheWeightBelow) {
  struct Own final : Module {
    Weight& table = parameter("table", {4, 3});
    Linear& q_proj = child<Linear>("q_proj", 3, 3, Linear::Options{});
  } own;
  fill(own);
  test::adapt(own.table, {.table = true}), test::adapt(own.q_proj.weight);
  std::vector<std::string> all, files;
  own.each_with_adapters([&](const std::string& name, Weight&) { all.push_back(name); });
  own.each_weight([&](const std::string& name, Weight&) { files.push_back(name); });
  EXPECT_EQ(all, (std::vector<std::string>{"table", "table.lora_A.weight", "table.lora_B.weight", "q_proj.weight",
                                           "q_proj.lora_A.weight", "q_proj.lora_B.weight"}));
  EXPECT_EQ(files, (std::vector<std::string>{"table", "q_proj.weight"}));
  EXPECT_EQ(own.parameter_count(), 12 + 9);
}

}  // namespace
}  // namespace hone::nn
