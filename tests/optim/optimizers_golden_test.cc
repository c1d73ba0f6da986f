// Updates against their references (tools/golden/golden_optim.py), through the registry as a run makes them.
#include <ATen/ATen.h>
#include <fmt/format.h>
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
  options["schedule"] = "constant";
  options.erase("lr");
  options.erase("type");
  Problems problems;
  const std::string type = golden["type"];
  const auto read = registries().optimizers.options(type);
  read->read(config::parse_json(options.dump(), "golden", problems), problems, "");
  problems.raise();
  return registries().optimizers.make(type, *read);
}

void apply(Optimizer& optimizer, std::vector<OptimizedWeight>& weights, const UpdateStep& step) {
  optimizer.begin_update(weights, step);
  optimizer.update(weights, step);
}

TEST(Optimizers, TwentyUpdatesEqualTheReference) {
  const std::filesystem::path path = test::golden("train/optimizers.safetensors");
  const auto tensors = test::read_tensors(path);
  const auto about = nlohmann::json::parse(Safetensors(path).metadata().at("golden"));
  ASSERT_GE(about["optimizers"].size(), 49u);
  const auto check = [&](const std::string& name, const nlohmann::json& options) {
    SCOPED_TRACE(name);
    const at::Tensor path = tensors.at(name + ".weights");
    const at::Tensor first = path[0];
    const auto shape = first.sizes();
    std::vector<OptimizedWeight> weights{{"w", nullptr, tensors.at("start").clone().view(shape), {}, {}, true}};
    const auto optimizer = make_optimizer(options);
    optimizer->attach(weights);
    for (std::int64_t step = 0; step < 20; ++step) {
      weights[0].gradient = tensors.at("gradients")[step].contiguous().view(shape);
      apply(*optimizer, weights,
            {.update = step + 1, .learning_rate_scale = tensors.at("rate_factors")[step].item<double>()});
      ASSERT_CLOSE(weights[0].master, path[step], test::Tolerance{1e-6, 1e-6}) << "update " << step;
      if (optimizer->curvature_every() > 0 && step % 2 == 1) optimizer->take_curvature(weights, 10);
    }
    if (optimizer->averages()) {
      EXPECT_CLOSE(optimizer->average(weights[0]), tensors.at(name + ".average"), test::Tolerance{1e-6, 1e-6});
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

// A moment is rounded to one of 256 values: where it lies between two of them the last bit decides, and the weight goes
// another way from there on. That may be one element in a thousand. 5e-6 and not 1e-6: torchao corrects the moments'
// bias in fp32, where 1 - 0.999^2 has five digits.
TEST(Optimizers, MomentsInBytesEqualTheReference) {
  const std::filesystem::path path = test::golden("train/optimizers_8bit.safetensors");
  const auto tensors = test::read_tensors(path);
  auto options = nlohmann::json::parse(Safetensors(path).metadata().at("golden"))["options"];
  options["type"] = "adamw_8bit";
  const auto check = [&] {
    std::vector<OptimizedWeight> weights{{"w", nullptr, tensors.at("start").clone(), {}, {}, true}};
    const auto optimizer = make_optimizer(options);
    optimizer->attach(weights);
    const at::Tensor shares = tensors.at("shares");
    for (std::int64_t step = 1; step <= 20; ++step) {
      weights[0].gradient = tensors.at("one") * shares[step - 1][0] + tensors.at("other") * shares[step - 1][1];
      apply(*optimizer, weights, {.update = step});
      const auto expected = tensors.find("weights." + std::to_string(step));
      if (expected == tensors.end()) continue;
      const at::Tensor off = (weights[0].master - expected->second).abs();
      EXPECT_LE((off > 5e-6 * (1 + expected->second.abs())).sum().item<std::int64_t>(),
                step == 20 ? off.numel() / 1000 : 0)
          << "update " << step;
      EXPECT_LT(off.max().item<double>(), 1e-3) << "update " << step;
    }
    optimizer->each_state([&](const std::string& name, at::Tensor& state) {
      const at::Tensor expected = tensors.at(name.substr(0, name.size() - 2));
      const at::Tensor off = (state.to(at::kFloat) - expected.to(at::kFloat)).abs();
      EXPECT_LE((off > 1e-5).sum().item<std::int64_t>(), off.numel() / 1000) << name;
      EXPECT_LE(off.max().item<double>(), 1) << name;  // the next code
    });
  };
  for (const ops::Level level : {ops::Level::basic, ops::Level::avx2, ops::Level::avx512}) {
    const ops::LevelScope scope(level);
    check();
  }
  const ops::BackendScope in_plain_aten(ops::reference_backend());
  check();
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
  const bool is_prodigy = GetParam() == "prodigy";  // without gradients it stands still
  const at::Tensor gradient = at::full({3, 3}, is_prodigy ? 1e-30 : 0.0);
  for (const bool all : {false, true}) {
    std::vector<OptimizedWeight> weights{{"norm", nullptr, at::ones({3, 3}), gradient, {}, false},
                                         {"matrix", nullptr, at::ones({3, 3}), gradient, {}, true, 1}};
    const auto optimizer =
        make(fmt::format("{{weight_decay: 0.5, decay_all: {}{}}}", all, is_prodigy ? ", d0: 0.1" : ""));
    optimizer->attach(weights);
    apply(*optimizer, weights, {});
    EXPECT_EQ(weights[0].master.max().item<float>() < 1, all);
    EXPECT_LT(weights[1].master.max().item<float>(), 1);
  }
}

std::vector<OptimizedWeight> weights_of(const std::vector<at::Tensor>& values) {
  std::vector<OptimizedWeight> weights;
  for (std::size_t i = 0; i < values.size(); ++i)
    weights.push_back({std::to_string(i), nullptr, values[i].clone(), {}, {}, true, i});
  return weights;
}

// A step's update comes in parts; each finds its state. One of them is of two dimensions, one of many elements.
TEST_P(EachOptimizer, UpdatesPartsAsTheWhole) {
  const std::vector<at::Tensor> values{at::ones({3}), at::ones({3, 4}), at::ones({70, 70})};
  const std::string options = GetParam() == "sgd" ? "{momentum: 0.9}" : "{}";
  std::vector<OptimizedWeight> together = weights_of(values), parts = weights_of(values);
  const auto one = make(options), two = make(options);
  one->attach(together), two->attach(parts);
  for (std::int64_t step = 1; step < 4; ++step) {
    for (std::vector<OptimizedWeight>* all : {&together, &parts})
      for (OptimizedWeight& weight : *all)
        weight.gradient =
            at::linspace(-0.1 * static_cast<double>(step), 0.3, weight.master.numel()).view(weight.master.sizes());
    const UpdateStep now{.update = step};
    apply(*one, together, now);
    two->begin_update(parts, now);
    two->update(std::span(parts).subspan(1), now);
    two->update(std::span(parts).first(1), now);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(at::equal(together[i].master, parts[i].master)) << i;
    EXPECT_FALSE(at::equal(together[i].master, values[i])) << i;
  }
}

// A run that goes on from saved state goes on to the same bits.
TEST_P(EachOptimizer, GoesOnFromItsState) {
  const std::vector<at::Tensor> values{at::ones({3}), at::ones({3, 4}), at::ones({70, 70})};
  std::vector<OptimizedWeight> whole = weights_of(values);
  const auto one = make("{}");
  one->attach(whole);
  const auto step = [&](Optimizer& optimizer, std::vector<OptimizedWeight>& all, std::int64_t number) {
    for (OptimizedWeight& weight : all)
      weight.gradient =
          at::linspace(-0.1 * static_cast<double>(number), 0.3, weight.master.numel()).view(weight.master.sizes());
    apply(optimizer, all, {.update = number});
  };
  step(*one, whole, 1), step(*one, whole, 2);
  std::map<std::string, at::Tensor> kept;
  one->each_state([&](const std::string& name, at::Tensor& state) { kept[name] = state.clone(); });
  std::vector<OptimizedWeight> resumed = weights_of(values);
  const auto two = make("{}");
  two->attach(resumed);
  for (std::size_t i = 0; i < values.size(); ++i) resumed[i].master.copy_(whole[i].master);
  two->each_state([&](const std::string& name, at::Tensor& state) { state.copy_(kept.at(name)); });
  step(*one, whole, 3), step(*two, resumed, 3);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(whole[i].master, resumed[i].master)) << i;
}

TEST_P(EachOptimizer, UpdatesSmallWeightsAsLargeOnes) {  // blocks, tails and doubles
  if (!make("{}")->is_elementwise()) GTEST_SKIP() << "an element's update depends on others";
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor gradient = at::linspace(-1, 1, 40001, at::TensorOptions().dtype(type));
    std::vector<OptimizedWeight> whole{{"w", nullptr, at::ones_like(gradient), gradient, {}, true}};
    const auto optimizer = make("{weight_decay: 0.1}");
    optimizer->attach(whole);
    optimizer->update(whole, {.gradient_scale = 0.5});
    for (const std::int64_t i : {0, 16383, 16384, 40000}) {
      std::vector<OptimizedWeight> one{
          {"w", nullptr, at::ones({1}, gradient.options()), gradient.slice(0, i, i + 1).clone(), {}, true}};
      const auto single = make("{weight_decay: 0.1}");
      single->attach(one);
      single->update(one, {.gradient_scale = 0.5});
      EXPECT_NEAR(whole[0].master[i].item<double>(), one[0].master[0].item<double>(), 1e-6);
    }
  }
}

// Decay, clipping, a second update and the rounding to bf16.
TEST_P(EachOptimizer, InPlainAtenDoesTheSame) {
  const auto run = [&] {
    std::vector<OptimizedWeight> weights{
        {"w", nullptr, at::ones({300}), at::linspace(-1, 1, 300), at::empty({300}, at::kBFloat16), true},
        {"frozen", nullptr, at::ones({3}), {}, at::zeros({3}, at::kBFloat16), true, 1},
        {"m", nullptr, at::ones({50, 90}), at::linspace(-1, 1, 4500).view({50, 90}), at::empty({50, 90}, at::kBFloat16),
         true, 2}};
    const auto optimizer = make("{weight_decay: 0.1}");
    optimizer->attach(weights);
    for (const std::int64_t step : {1, 2}) apply(*optimizer, weights, {.update = step, .gradient_scale = 0.5});
    return weights;
  };
  const auto blocks = run();
  const ops::BackendScope in_plain_aten(ops::reference_backend());
  const auto plain = run();
  for (const std::size_t i : {0, 2}) {
    EXPECT_TRUE(at::allclose(plain[i].master, blocks[i].master, 1e-6, 1e-7)) << i;
    EXPECT_TRUE(plain[i].rounded.equal(plain[i].master.to(at::kBFloat16))) << i;
    EXPECT_TRUE(blocks[i].rounded.equal(blocks[i].master.to(at::kBFloat16))) << i;
  }
  EXPECT_TRUE(plain[1].rounded.equal(blocks[1].rounded));
}

INSTANTIATE_TEST_SUITE_P(All, EachOptimizer,
                         ::testing::Values("adafactor", "adam", "adamax", "adamw", "adamw_8bit", "adamw_schedule_free",
                                           "ademamix", "lamb", "lion", "mars", "muon", "nadam", "prodigy", "radam",
                                           "rmsprop", "sgd", "sophia"));

std::unique_ptr<Optimizer> make_groups(const std::string& yaml) {
  Problems problems;
  const auto read = registries().optimizers.options("groups");
  read->read(config::parse_yaml(yaml, "test", problems), problems, "optimizer.");
  problems.raise();
  return registries().optimizers.make("groups", *read);
}

constexpr const char* kTwoGroups =
    "{groups: [{name: head, match: head, optimizer: {type: sgd, learning_rate: 0.5, schedule: linear}},"
    " {name: rest, optimizer: {type: adamw, learning_rate: 0.1, schedule: constant}}]}";

TEST(OptimizerGroups, EachHasItsOptimizerScheduleAndState) {
  const auto weight = [](const char* name, std::size_t index) {
    return OptimizedWeight{name, nullptr, at::ones({3}), at::full({3}, 0.5), {}, true, index};
  };
  std::vector<OptimizedWeight> weights{weight("a", 0), weight("head", 1), weight("b", 2)};
  const auto groups = make_groups(kTwoGroups);
  groups->attach(weights);
  apply(*groups, weights, {.update = 1, .step = 5, .steps = 10});
  EXPECT_FLOAT_EQ(weights[1].master[0].item<float>(), 1 - 0.5f * 0.5f * 0.5f);
  EXPECT_NEAR(weights[0].master[0].item<float>(), 1 - 0.1 * 0.01 - 0.1, 1e-6);
  EXPECT_TRUE(at::equal(weights[0].master, weights[2].master));
  std::vector<std::string> states;
  groups->each_state([&](const std::string& name, at::Tensor&) { states.push_back(name); });
  EXPECT_EQ(states, (std::vector<std::string>{"exp_avg.a", "exp_avg_sq.a", "exp_avg.b", "exp_avg_sq.b"}));
  EXPECT_EQ(groups->parts().at(0).second->learning_rate(5, 10), 0.25);
  EXPECT_EQ(groups->parts().at(1).first, "rest");
}

TEST(OptimizerGroups, WeightsInNoneAndGroupsWithoutWeightsAreErrors) {
  std::vector<OptimizedWeight> weights{{"a", nullptr, at::ones({3}), {}, {}, true, 0}};
  EXPECT_THROW(make_groups(kTwoGroups)->attach(weights), Error);
  weights[0].name = "head";
  EXPECT_THROW(make_groups(kTwoGroups)->attach(weights), Error);
  weights[0].name = "b";
  EXPECT_THROW(make_groups("{groups: [{name: a, match: a}]}")->attach(weights), Error);
  EXPECT_THROW(make_groups("{}"), Error);
  EXPECT_THROW(make_groups("{groups: [{name: a, match: '('}]}"), Error);
  EXPECT_THROW(make_groups("{groups: [{name: a}, {name: a}]}"), Error);
}

// What is no matrix between hidden states is AdamW's.
TEST(Muon, LeavesTablesHeadsAndVectorsToAdamW) {
  Weight table({4, 4}, {}, true), hidden({4, 4}, {}, true), kernel({8, 1, 4}, {}, true);
  table.set_use(WeightUse::table), hidden.set_use(WeightUse::product);
  std::vector<OptimizedWeight> weights;
  const auto add = [&](const char* name, Weight* weight, std::vector<std::int64_t> shape) {
    weights.push_back({name, weight, at::ones(shape), {}, {}, true, weights.size()});
  };
  add("embed_tokens.weight", &table, {4, 4}), add("mlp.weight", &hidden, {4, 4}), add("norm.weight", nullptr, {4});
  add("lm_head.weight", &hidden, {4, 4}), add("experts.weight", nullptr, {2, 4, 4});
  add("conv1d.weight", &kernel, {8, 1, 4});
  Problems problems;
  const auto read = registries().optimizers.options("muon");
  const auto muon = registries().optimizers.make("muon", *read);
  muon->attach(weights);
  std::vector<std::string> orthogonal;
  muon->each_state([&](const std::string& name, at::Tensor&) {
    if (name.starts_with("momentum_buffer.")) orthogonal.push_back(name.substr(16));
  });
  EXPECT_EQ(orthogonal, (std::vector<std::string>{"mlp.weight", "experts.weight"}));
}

// A stack of matrices is updated as its matrices are, one by one.
TEST(Muon, UpdatesStacksAsTheirMatrices) {
  const at::Tensor gradient = at::linspace(-1, 1, 24).view({2, 3, 4}).square();
  std::vector<OptimizedWeight> stack{{"w", nullptr, at::ones({2, 3, 4}), gradient, {}, true, 0}};
  std::vector<OptimizedWeight> single{{"w", nullptr, at::ones({3, 4}), gradient[1].clone(), {}, true, 0}};
  for (std::vector<OptimizedWeight>* weights : {&stack, &single}) {
    const auto muon = registries().optimizers.make("muon", *registries().optimizers.options("muon"));
    muon->attach(*weights);
    apply(*muon, *weights, {});
  }
  EXPECT_TRUE(at::allclose(stack[0].master[1], single[0].master, 1e-6, 1e-7));
}

// However they lie, outputs are outputs: original's factor is of a matrix that is tall.
TEST(Muon, KnowsHowAStackLies) {
  const at::Tensor gradient = at::linspace(-1, 1, 24).view({2, 6, 2}).square();
  Weight rows({2, 6, 2}, {}, true), columns({2, 2, 6}, {}, true);
  rows.set_use(WeightUse::stack), columns.set_use(WeightUse::stack_in_out);
  std::vector<OptimizedWeight> out_in{{"w", &rows, at::ones({2, 6, 2}), gradient, {}, true, 0}};
  std::vector<OptimizedWeight> in_out{{"w", &columns, at::ones({2, 2, 6}), gradient.mT().contiguous(), {}, true, 0}};
  for (std::vector<OptimizedWeight>* weights : {&out_in, &in_out}) {
    const auto muon = registries().optimizers.make("muon", *registries().optimizers.options("muon"));
    muon->attach(*weights);
    apply(*muon, *weights, {});
  }
  EXPECT_TRUE(at::allclose(out_in[0].master, in_out[0].master.mT(), 1e-5, 1e-6));
}

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
