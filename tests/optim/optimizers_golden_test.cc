// Updates against their references (tools/golden/golden_optim.py), through the registry as a run makes them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/close.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "ops/backend.h"
#include "ops/kernels.h"
#include "optim/blocks.h"
#include "train/support.h"

namespace hone {
namespace {

std::unique_ptr<Optimizer> make_optimizer(const nlohmann::json& golden) {
  nlohmann::json options = golden;
  options["learning_rate"] = options["lr"];
  options.erase("lr");
  options.erase("type");
  Problems problems;
  const std::string type = golden["type"];
  const auto read = registries().optimizers.options(type);
  read->read(config::parse_json(options.dump(), "golden", problems), problems, "");
  problems.raise();
  return registries().optimizers.make(type, *read);
}

TEST(Optimizers, TwentyUpdatesEqualTheReference) {
  const std::filesystem::path path = test::golden("train/optimizers.safetensors");
  const auto tensors = test::read_tensors(path);
  const auto about = nlohmann::json::parse(Safetensors(path).metadata().at("golden"));
  ASSERT_GE(about["optimizers"].size(), 28u);
  const auto check = [&](const std::string& name, const nlohmann::json& options) {
    SCOPED_TRACE(name);
    std::vector<OptimizedWeight> weights{{"w", nullptr, tensors.at("start").clone(), {}, {}, true}};
    const auto optimizer = make_optimizer(options);
    optimizer->attach(weights);
    for (std::int64_t step = 0; step < 20; ++step) {
      weights[0].gradient = tensors.at("gradients")[step].contiguous();
      const double rate = options["lr"].get<double>() * tensors.at("rate_factors")[step].item<double>();
      optimizer->update(weights, step + 1, rate, 1.0);
      ASSERT_CLOSE(weights[0].master, tensors.at(name + ".weights")[step], test::Tolerance{1e-6, 1e-6})
          << "update " << step;
    }
  };
  for (const auto& [name, options] : about["optimizers"].items()) {
    for (const ops::Level level : {ops::Level::basic, ops::Level::avx2, ops::Level::avx512}) {
      const ops::LevelScope scope(level);
      check(name, options);
    }
    const ops::BackendScope in_plain_aten(ops::reference_backend());
    check(name, options);
  }
}

class EachOptimizer : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Optimizer> make(const std::string& options) {
    Problems problems;
    const auto read = registries().optimizers.options(GetParam());
    read->read(config::parse_yaml(options, "test", problems), problems, "");
    problems.raise();
    return registries().optimizers.make(GetParam(), *read);
  }
};

TEST_P(EachOptimizer, DecaySkipsNormsAndBiasesUnlessAskedFor) {
  for (const bool all : {false, true}) {
    std::vector<OptimizedWeight> weights{{"norm", nullptr, at::ones({3}), at::zeros({3}), {}, false},
                                         {"matrix", nullptr, at::ones({3}), at::zeros({3}), {}, true, 1}};
    const auto optimizer = make(all ? "{weight_decay: 0.5, decay_all: true}" : "{weight_decay: 0.5}");
    optimizer->attach(weights);
    optimizer->update(weights, 1, 0.1, 1.0);
    EXPECT_EQ(weights[0].master[0].item<float>() < 1, all);
    EXPECT_LT(weights[1].master[0].item<float>(), 1);
  }
}

// A step's update comes in parts; each finds its state.
TEST_P(EachOptimizer, UpdatesPartsAsTheWhole) {
  const auto make_weights = [] {
    std::vector<OptimizedWeight> weights;
    for (std::size_t i = 0; i < 3; ++i)
      weights.push_back({std::to_string(i), nullptr, at::ones({3}), at::full({3}, 0.1 * (1.0 + i)), {}, true, i});
    return weights;
  };
  const std::string options = GetParam() == "sgd" ? "{momentum: 0.9}" : "{}";
  std::vector<OptimizedWeight> together = make_weights(), parts = make_weights();
  const auto one = make(options), two = make(options);
  one->attach(together), two->attach(parts);
  for (std::int64_t step = 1; step < 4; ++step) {
    one->update(together, step, 0.1, 1.0);
    two->update(std::span(parts).subspan(1), step, 0.1, 1.0);
    two->update(std::span(parts).first(1), step, 0.1, 1.0);
    for (OptimizedWeight& weight : together) weight.gradient.mul_(-0.5);
    for (OptimizedWeight& weight : parts) weight.gradient.mul_(-0.5);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(together[i].master, parts[i].master)) << i;
}

TEST_P(EachOptimizer, LeavesWeightsWithoutGradientAlone) {
  std::vector<OptimizedWeight> weights{{"a", nullptr, at::ones({3}), {}, {}, true}};
  const auto optimizer = make("{weight_decay: 0.5}");
  optimizer->attach(weights);
  optimizer->update(weights, 1, 0.1, 1.0);
  EXPECT_TRUE(at::equal(weights[0].master, at::ones({3})));
}

TEST_P(EachOptimizer, UpdatesSmallWeightsAsLargeOnes) {  // blocks, tails and doubles
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor gradient = at::linspace(-1, 1, 40001, at::TensorOptions().dtype(type));
    std::vector<OptimizedWeight> whole{{"w", nullptr, at::ones_like(gradient), gradient, {}, true}};
    const auto optimizer = make("{weight_decay: 0.1}");
    optimizer->attach(whole);
    optimizer->update(whole, 1, 0.1, 0.5);
    for (const std::int64_t i : {0, 16383, 16384, 40000}) {
      std::vector<OptimizedWeight> one{
          {"w", nullptr, at::ones({1}, gradient.options()), gradient.slice(0, i, i + 1).clone(), {}, true}};
      const auto single = make("{weight_decay: 0.1}");
      single->attach(one);
      single->update(one, 1, 0.1, 0.5);
      EXPECT_NEAR(whole[0].master[i].item<double>(), one[0].master[0].item<double>(), 1e-6);
    }
  }
}

// Decay, clipping, a second update and the rounding to bf16.
TEST_P(EachOptimizer, InPlainAtenDoesTheSame) {
  const auto run = [&] {
    std::vector<OptimizedWeight> weights{
        {"w", nullptr, at::ones({300}), at::linspace(-1, 1, 300), at::empty({300}, at::kBFloat16), true},
        {"frozen", nullptr, at::ones({3}), {}, at::zeros({3}, at::kBFloat16), true, 1}};
    const auto optimizer = make("{weight_decay: 0.1}");
    optimizer->attach(weights);
    for (const std::int64_t step : {1, 2}) optimizer->update(weights, step, 0.1, 0.5);
    return weights;
  };
  const auto blocks = run();
  const ops::BackendScope in_plain_aten(ops::reference_backend());
  const auto plain = run();
  EXPECT_TRUE(at::allclose(plain[0].master, blocks[0].master, 1e-6, 1e-7));
  EXPECT_TRUE(plain[0].rounded.equal(plain[0].master.to(at::kBFloat16)));
  EXPECT_TRUE(plain[1].rounded.equal(blocks[1].rounded));
}

INSTANTIATE_TEST_SUITE_P(All, EachOptimizer,
                         ::testing::Values("adam", "adamax", "adamw", "ademamix", "lion", "nadam", "radam", "rmsprop",
                                           "sgd"));

TEST(SumOfSquares, IsOfAllWeightsTogether) {
  std::vector<OptimizedWeight> weights{{"a", nullptr, at::zeros({40000}), at::full({40000}, 0.01), {}, true},
                                       {"b", nullptr, at::zeros({3}), at::full({3}, 2.0), {}, true},
                                       {"none", nullptr, at::zeros({3}), {}, {}, true}};
  EXPECT_NEAR(optim::sum_of_squares(weights), 40000 * 1e-4 + 12, 1e-5);
  {
    const ops::BackendScope in_plain_aten(ops::reference_backend());
    EXPECT_NEAR(optim::sum_of_squares(weights), 40000 * 1e-4 + 12, 1e-5);
  }
  weights[1].gradient[1] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(optim::sum_of_squares(weights)));
}

}  // namespace
}  // namespace hone
