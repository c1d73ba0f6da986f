// Blocks in terms of Residual and Input: the same as sum after sum, whatever is made late.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "hone/layers.h"
#include "ops/check.h"

namespace hone::nn {
namespace {

using ops::Level;
using ops::LevelScope;
using ops::test::expect_close;
using ops::test::sample;

template <class N>
class Parts : public Module {
 public:
  Parts() {
    std::uint64_t seed = 1;
    each_weight([&](const std::string&, Weight& weight) { weight.fill(sample(weight.shape(), at::kFloat, ++seed)); });
  }
  N& one = child<N>("one", 12, 1e-6);
  N& two = child<N>("two", 12, 1e-6);
  Linear& a = child<Linear>("a", 12, 12, Linear::Options{.bias = true});
  GatedMlp& mlp = child<GatedMlp>("mlp", GatedMlp::Options{.hidden = 12, .inner = 20});
};

// Of no batch: no layer here asks for one.
const Batch no_batch;
const Pass no_pass(no_batch);

struct Result {
  std::vector<Tensor> tensors;
};
template <class N, class Block>
Result run(const Parts<N>& constant, const Tensor& x, Block&& block) {
  auto& parts = const_cast<Parts<N>&>(constant);
  Result result{{block(parts, x)}};
  if (!at::GradMode::is_enabled()) return result;
  result.tensors[0].square().sum().backward();
  parts.each_weight([&](const std::string&, Weight& weight) {
    result.tensors.push_back(weight.grad().clone());
    weight.clear_grad();
  });
  return result;
}

template <class N>
Tensor in_turn(Parts<N>& p, const Tensor& x_1ND) {
  Residual x(x_1ND);
  x += nn::linears(p.one(x), {&p.a}, no_pass)[0];
  x += p.mlp(p.two(x), no_pass);
  return x.sum();
}
template <class N>
Tensor in_turn_plainly(Parts<N>& p, const Tensor& x) {
  const Tensor y = x + p.a(p.one(x), no_pass);
  return y + p.mlp(p.two(y), no_pass);
}
// Both parts read the same norm, and the first has been added when the second is made.
template <class N>
Tensor side_by_side(Parts<N>& p, const Tensor& x_1ND) {
  Residual x(x_1ND);
  x += x_1ND * 0.5;
  const Input normed = p.one(x);
  x += nn::linears(normed, {&p.a}, no_pass)[0];
  x += p.mlp(normed, no_pass);
  x += p.two(normed.value());
  return x.sum();
}
template <class N>
Tensor side_by_side_plainly(Parts<N>& p, const Tensor& x_1ND) {
  const Tensor x = x_1ND + x_1ND * 0.5, normed = p.one(x);
  return x + p.a(normed, no_pass) + p.mlp(normed, no_pass) + p.two(normed);
}

template <class N>
void compare() {
  const Parts<N> parts;
  for (const std::int64_t rows : {3, 40}) {
    const Tensor x = sample({1, rows, 12}, at::kFloat);
    for (const Level level : {Level::reference, Level::basic, Level::avx2, Level::avx512}) {
      const LevelScope scope(level);
      const auto same = [&](const Result& got, const Result& expected) {
        ASSERT_EQ(got.tensors.size(), expected.tensors.size());
        for (std::size_t i = 0; i < got.tensors.size(); ++i)
          expect_close(got.tensors[i], expected.tensors[i], 1e-5, "tensor " + std::to_string(i));
      };
      same(run(parts, x, in_turn<N>), run(parts, x, in_turn_plainly<N>));
      same(run(parts, x, side_by_side<N>), run(parts, x, side_by_side_plainly<N>));
      const at::NoGradGuard no_graph;
      same(run(parts, x, in_turn<N>), run(parts, x, in_turn_plainly<N>));
      same(run(parts, x, side_by_side<N>), run(parts, x, side_by_side_plainly<N>));
    }
  }
}

TEST(Residual, WithRmsNormsIsSumAfterSum) { compare<RmsNorm>(); }
TEST(Residual, WithLayerNormsIsSumAfterSum) { compare<LayerNorm>(); }

TEST(Residual, ItsSumIsWhatWasAdded) {
  Residual x(at::ones({2}));
  x += at::ones({2}) * 2;
  x += at::ones({2}) * 4;
  EXPECT_TRUE(at::equal(x.sum(), at::full({2}, 7.0f)));
  EXPECT_TRUE(at::equal(x.sum(), at::full({2}, 7.0f)));
}

}  // namespace
}  // namespace hone::nn
