// Optimizers' updates by the emulated GPU, against those by plain ATen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "cuda/kernel_check.h"
#include "hone/optimizer.h"
#include "hone/registry.h"

namespace hone::ops::test {
namespace {

struct UpdateCase {
  std::string optimizer = "adamw";
  at::ScalarType type = at::kFloat, rounded = at::kBFloat16;  // kUndefined: not rounded
  std::int64_t size = 5000;
  std::optional<double> scale_there = {};
  bool decays = true;
  std::int64_t offset = 0;  // in memory, in elements
};

std::string described(const UpdateCase& c) {
  return fmt::format("{} {} -> {} x {}, scale {}", c.optimizer, c10::toString(c.type), c10::toString(c.rounded), c.size,
                     c.scale_there.value_or(-1));
}

Tensor placed(const Tensor& x, std::int64_t offset) {
  const Tensor room = at::empty({x.numel() + offset}, x.options());
  return room.narrow(0, offset, x.numel()).copy_(x);
}

// Master, rounded, states after three updates.
Results updated(const UpdateCase& c) {
  const auto optimizer = registries().optimizers.make(c.optimizer, *registries().optimizers.options(c.optimizer));
  const at::TensorOptions options = at::TensorOptions().dtype(c.type);
  std::vector<OptimizedWeight> weights(1);
  OptimizedWeight& weight = weights[0];
  weight.name = "w";
  weight.decays = c.decays;
  weight.master = placed(at::linspace(-2, 2, c.size, options), c.offset);
  if (c.rounded != at::ScalarType::Undefined) weight.rounded = weight.master.to(c.rounded);
  optimizer->attach(weights);
  const Tensor scale = c.scale_there ? at::scalar_tensor(*c.scale_there, at::kDouble) : Tensor();
  for (std::int64_t t = 1; t <= 3; ++t) {
    weight.gradient = placed(at::sin(at::linspace(-90, 70, c.size, options) * static_cast<double>(t)), c.offset);
    UpdateStep step{.update = t, .step = t - 1, .steps = 10, .gradient_scale = c.scale_there ? 1 : 0.25};
    step.scale_there = scale;
    optimizer->begin_update(weights, step);
    optimizer->update(weights, step);
  }
  Results made{weight.master, weight.rounded};
  optimizer->each_state([&](const std::string&, Tensor& state) { made.push_back(state); });
  return made;
}

Primitive primitive(const UpdateCase& c) {
  return [c](const Backend& table) {
    const BackendScope scope(table);
    return updated(c);
  };
}

std::vector<UpdateCase> cases() {
  std::vector<UpdateCase> all;
  for (const char* optimizer : {"adamw", "adam", "lion", "sophia"})
    for (const std::optional<double>& scale : {std::optional<double>(), std::optional(0.3), std::optional(1e-8)}) {
      all.push_back({.optimizer = optimizer, .scale_there = scale});
      all.push_back({.optimizer = optimizer, .rounded = at::kHalf, .size = 4096, .scale_there = scale});
      all.push_back({.optimizer = optimizer, .rounded = at::ScalarType::Undefined, .size = 1, .scale_there = scale});
      all.push_back({.optimizer = optimizer, .size = 1003, .scale_there = scale, .decays = false});
      all.push_back({.optimizer = optimizer, .size = 64, .scale_there = scale, .offset = 3});
      all.push_back({.optimizer = optimizer,
                     .type = at::kDouble,
                     .rounded = at::ScalarType::Undefined,
                     .size = 3000,
                     .scale_there = scale});
    }
  return all;
}

TEST(CudaUpdates, AreThoseOfPlainAten) {
  for (const UpdateCase& c : cases()) {
    const Results made = emulated_results(primitive(c), described(c)), expected = primitive(c)(reference_backend());
    ASSERT_EQ(made.size(), expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i].defined()) continue;
      const double largest = expected[i].abs().max().to(at::kDouble).item<double>();
      const double apart = (made[i].to(at::kDouble) - expected[i].to(at::kDouble)).abs().max().item<double>();
      EXPECT_LE(apart, kernel_tolerance(made[i].scalar_type()) * largest) << described(c) << ": result " << i;
    }
    if (made[1].defined()) {
      EXPECT_TRUE(made[1].equal(made[0].to(made[1].scalar_type()))) << described(c);
    }
  }
}

TEST(CudaUpdates, ChangeNothingWhereTheScaleIsNotANumber) {
  for (const Backend* table : {&emulated_backend(), &reference_backend()})
    for (UpdateCase c : cases()) {
      c.scale_there = std::numeric_limits<double>::quiet_NaN();
      const Results made = primitive(c)(*table);
      EXPECT_TRUE(made[0].equal(at::linspace(-2, 2, c.size, made[0].options()))) << described(c);
      for (std::size_t i = 2; i < made.size(); ++i) EXPECT_EQ(made[i].abs().max().item<double>(), 0) << described(c);
    }
}

}  // namespace
}  // namespace hone::ops::test
