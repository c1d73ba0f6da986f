// Gradient checkpointing gives the bits of the plain function.
#include "ops/checkpoint.h"

#include "ops/check.h"
#include "ops/linear.h"

namespace hone::ops::test {
namespace {

TEST(Checkpoint, GivesTheSameBits) {
  const Tensor weight = sample({6, 6}, at::kFloat).requires_grad_(true);
  const auto run = [&](const Tensor& x) { return at::matmul(x, weight).tanh(); };
  const auto once = [&](bool keep, bool leaf_needs) {
    weight.mutable_grad() = Tensor();
    const Tensor x = sample({4, 6}, at::kFloat, 2).requires_grad_(leaf_needs);
    const Tensor y = keep ? run(run(x)) : checkpoint(run, checkpoint(run, x));
    y.square().sum().backward();
    return std::vector<Tensor>{y.detach(), weight.grad(), leaf_needs ? x.grad() : at::zeros({1})};
  };
  for (const bool leaf_needs : {true, false}) {
    const auto kept = once(true, leaf_needs), remade = once(false, leaf_needs);
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], remade[i])) << i;
  }
}

// Without a graph a product of few rows has a kernel of its own, which adds in another order.
TEST(Checkpoint, ProductsOfFewRowsAreThoseOfTheGraph) {
  const Tensor weight = sample({48, 64}, at::kFloat).requires_grad_(true), x = sample({4, 64}, at::kFloat, 2);
  const auto run = [&](const Tensor& in) { return linear(in, {.weight_OI = weight}); };
  const Tensor plain = run(x), first = checkpoint(run, x);
  EXPECT_TRUE(at::equal(plain, first));
  EXPECT_FALSE(is_computed_again());
}

TEST(Checkpoint, RunsTwice) {
  int runs = 0;
  const Tensor x = sample({2}).requires_grad_(true);
  const Tensor y = checkpoint([&](const Tensor& in) { return ++runs, in * 2; }, x);
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  const at::NoGradGuard no_graph;
  checkpoint([&](const Tensor& in) { return ++runs, in * 2; }, x);
  EXPECT_EQ(runs, 3);
}

TEST(Checkpoint, TakesSeveralOutputs) {
  const Tensor weight = sample({6, 6}, at::kFloat).requires_grad_(true);
  const auto run = [&](const Tensor& x) {
    const Tensor y = at::matmul(x, weight);
    return std::vector<Tensor>{y.tanh(), y.square().sum(), at::ones({2}), y.exp()};
  };
  const auto once = [&](bool keep) {
    weight.mutable_grad() = Tensor();
    const Tensor x = sample({4, 6}, at::kFloat, 2).requires_grad_(true);
    const std::vector<Tensor> out = keep ? run(x) : checkpoint(run, x);
    (out[0].sum() + out[1] * 3 + out[2].sum()).backward();  // the last one is not used
    return std::vector<Tensor>{weight.grad(), x.grad()};
  };
  const auto kept = once(true), remade = once(false);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], remade[i])) << i;
}

TEST(Checkpoint, TakesSeveralInputs) {
  const Tensor weight = sample({6, 6}, at::kFloat).requires_grad_(true);
  const auto run = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{at::matmul(in[0], weight) * in[1], in[1].exp()};  // the last input is not used
  };
  const auto once = [&](bool keep) {
    weight.mutable_grad() = Tensor();
    std::vector<Tensor> in;
    for (const bool needs : {true, true, false, true}) in.push_back(sample({4, 6}, at::kFloat).requires_grad_(needs));
    const std::vector<Tensor> out = keep ? run(in) : checkpoint(run, in);
    (out[0].square().sum() + out[1].sum()).backward();
    EXPECT_FALSE(in[3].grad().defined());
    return std::vector<Tensor>{weight.grad(), in[0].grad(), in[1].grad()};
  };
  const auto kept = once(true), remade = once(false);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], remade[i])) << i;
}

}  // namespace
}  // namespace hone::ops::test
