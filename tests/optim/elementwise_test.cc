// Ranks share out weights whose elements are updated each by itself: an element has the same bits in any place.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hone/optimizer.h"
#include "hone/registry.h"
#include "ops/kernels.h"

namespace hone {
namespace {

constexpr std::int64_t kSize = 211;

// Where memory begins does not count either.
Tensor placed(const Tensor& x, std::int64_t offset) {
  return at::empty({x.numel() + offset}, x.options()).narrow(0, offset, x.numel()).copy_(x);
}

// Masters after three updates of the elements [begin, end) of a weight, as a weight of their own.
Tensor updated(const std::string& type, at::ScalarType dtype, std::int64_t begin, std::int64_t end) {
  const auto optimizer = registries().optimizers.make(type, *registries().optimizers.options(type));
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  const Tensor start = at::sin(at::arange(kSize, options) * 1.7), gradient = at::cos(at::arange(kSize, options) * 0.3);
  std::vector<OptimizedWeight> weights(1);
  weights[0].name = "w";
  weights[0].master = placed(start.slice(0, begin, end), begin % 5);
  optimizer->attach(weights);
  for (std::int64_t t = 1; t <= 3; ++t) {
    weights[0].gradient = placed(gradient.slice(0, begin, end).mul(static_cast<double>(t)), begin % 3);
    const UpdateStep step{.update = t, .step = t - 1, .steps = 10, .gradient_scale = 0.37};
    optimizer->begin_update(weights, step);
    optimizer->update(weights, step);
  }
  return weights[0].master;
}

TEST(Elementwise, AnElementsBitsDoNotDependOnItsPlace) {
  std::size_t checked = 0;
  for (const std::string& type : registries().optimizers.names()) {
    if (!registries().optimizers.make(type, *registries().optimizers.options(type))->is_elementwise()) continue;
    ++checked;
    for (const auto level : {ops::Level::basic, ops::Level::avx2, ops::Level::avx512})
      for (const auto dtype : {at::kFloat, at::kDouble}) {
        const ops::LevelScope scope(level);
        const Tensor whole = updated(type, dtype, 0, kSize);
        for (std::int64_t begin = 0; begin < 20; ++begin)
          for (std::int64_t size : {1, 7, 16, 33, 100})
            EXPECT_TRUE(updated(type, dtype, begin, begin + size).equal(whole.slice(0, begin, begin + size)))
                << type << " " << ops::name(level) << ": " << size << " from " << begin << " on";
      }
  }
  EXPECT_GE(checked, 9u);
}

}  // namespace
}  // namespace hone
