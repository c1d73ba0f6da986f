// Weights, their names and their order; layers on the meta device; the head.
#include "hone/module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>

#include "hone/layers.h"

namespace hone::nn {
namespace {

struct Inner final : Module {
  explicit Inner(std::int64_t index) : scale(parameter("scale", {index + 1}, {}, /*decays=*/false)) {}
  Weight& scale;
};
struct Outer final : Module {
  Stack<Inner>& layers = child<Stack<Inner>>("layers", 2);
  Linear& last = child<Linear>("last", 3, 4, Linear::Options{.bias = true});
};

TEST(Module, NamesWeightsInTheOrderOfDeclaration) {
  Outer outer;
  std::vector<std::string> names;
  outer.each_weight([&](const std::string& name, Weight&) { names.push_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.scale", "layers.1.scale", "last.weight", "last.bias"}));
  EXPECT_EQ(outer.parameter_count(), 1 + 2 + 12 + 4);
  EXPECT_TRUE(outer.last.weight.decays());
  EXPECT_FALSE(outer.last.bias->decays());
}

TEST(Weight, HasNoMemoryUntilFilled) {
  Weight weight({1 << 20, 1 << 20}, {}, true);  // 4 TB
  EXPECT_FALSE(weight.filled());
  EXPECT_THROW(weight.use(), Error);
  EXPECT_FALSE(weight.grad().defined());
}
TEST(Weight, RefusesSizesThatCannotBe) {
  EXPECT_THROW(Weight({1LL << 40, 1LL << 40}, {}, true), Error);
  EXPECT_THROW(Weight({-1}, {}, true), Error);
}
TEST(Weight, RefusesAnotherShape) {
  Weight weight({2, 3}, {}, true);
  EXPECT_THROW(weight.fill(at::zeros({3, 2})), Error);
}
TEST(Weight, KeepsItsGradientWhileTrainable) {
  Weight weight({2}, {}, true);
  weight.fill(at::ones({2}));
  weight.use().square().sum().backward();
  EXPECT_EQ(weight.grad()[0].item<float>(), 2);
  weight.clear_grad();
  EXPECT_FALSE(weight.grad().defined());
  weight.set_trainable(false);
  EXPECT_FALSE(weight.use().requires_grad());
  weight.fill(at::zeros({2}));
  EXPECT_FALSE(weight.use().requires_grad());
}

TEST(Weight, HoldsAPartOfItself) {
  Weight weight({4, 6}, {}, true);
  const Tensor whole = at::arange(24, at::kFloat).view({4, 6});
  EXPECT_TRUE(weight.layout().whole());
  EXPECT_TRUE(weight.part_of(whole).is_same(whole));
  weight.set_layout({{4, 6}, {2, 3}, {2, 0}, {"fsdp", "tp"}});
  EXPECT_FALSE(weight.layout().whole());
  EXPECT_EQ(weight.shape(), (std::vector<std::int64_t>{4, 6}));
  EXPECT_TRUE(at::equal(weight.part_of(whole), at::tensor({12.F, 13.F, 14.F, 18.F, 19.F, 20.F}).view({2, 3})));
  EXPECT_THROW(weight.fill(whole), Error);
  weight.fill(weight.part_of(whole));
  EXPECT_EQ(weight.use().numel(), 6);
  EXPECT_THROW(weight.set_layout({{4, 6}, {4, 6}, {0, 0}, {"", ""}}), Error);  // filled
}
// A share of a slice, and all of the slice once its memory comes.
TEST(Weight, HoldsSomeElementsOfASlice) {
  Weight weight({4, 6}, {}, true);
  const Tensor whole = at::arange(24, at::kFloat).view({4, 6});
  weight.set_layout({{4, 6}, {4, 3}, {0, 3}, {"", "tensor"}, 2, 5});
  EXPECT_EQ(weight.layout().numel(), 12);
  EXPECT_TRUE(at::equal(weight.part_of(whole), at::tensor({5.F, 9.F, 10.F, 11.F, 15.F})));
  weight.fill(weight.part_of(whole));
  weight.fill_whole(whole.narrow(1, 3, 3));
  EXPECT_EQ(weight.layout().shape, (std::vector<std::int64_t>{4, 3}));
  EXPECT_FALSE(weight.layout().whole());
  EXPECT_THROW(Weight({4, 6}, {}, true).set_layout({{4, 6}, {4, 3}, {0, 3}, {"", "tensor"}, 10, 3}), Error);
}
TEST(Weight, RefusesALayoutThatIsNotOfIt) {
  const auto refuses = [](Layout layout) {
    EXPECT_THROW(Weight({4, 6}, {}, true).set_layout(std::move(layout)), Error);
  };
  refuses({{4, 5}, {4, 5}, {0, 0}, {"", ""}});      // another shape
  refuses({{4, 6}, {3, 6}, {2, 0}, {"fsdp", ""}});  // beyond the end
  refuses({{4, 6}, {2, 6}, {0, 0}, {"", ""}});      // cut along no axis
  refuses({{4, 6}, {4}, {0, 0}, {"", ""}});
}

struct Running final : Module {
  Weight& mean = buffer("mean", {2}, {Init::Kind::zeros},
                        [](const Tensor& value, const Tensor& seen) { return value + seen; });
  Weight& weight = parameter("weight", {3});
};
TEST(Buffer, IsVisitedAndNotTrained) {
  Running running;
  std::vector<std::string> names;
  std::as_const(running).each_weight([&](const std::string& name, const Weight&) { names.push_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"mean", "weight"}));
  EXPECT_EQ(running.parameter_count(), 3);
  EXPECT_TRUE(running.mean.is_buffer());
  EXPECT_FALSE(running.mean.trainable() || running.weight.is_buffer());
  EXPECT_THROW(running.mean.set_trainable(true), Error);
}
TEST(Buffer, IsUpdatedInItsPlaceFromWhatAPassSaw) {
  Running running;
  running.mean.fill(at::ones({2}));
  const Tensor held = running.mean.use();
  const Batch batch;
  Pass pass(batch);
  pass.observe(running.mean, at::tensor({1.F, 2.F}).requires_grad_());
  pass.observe(running.mean, at::tensor({10.F, 20.F}));
  EXPECT_FALSE(pass.observed.at(&running.mean).requires_grad());
  running.mean.update_buffer(pass.observed.at(&running.mean));
  EXPECT_TRUE(at::equal(held, at::tensor({12.F, 23.F})));
  EXPECT_THROW(pass.observe(running.weight, at::ones({3})), Error);
}

TEST(Head, LogitsAndLossAgree) {
  Head head(6, 9, 0.02);
  head.each_weight([](const std::string&, Weight& w) { w.fill(at::arange(54, at::kFloat).view({9, 6}).sin()); });
  const Tensor hidden = at::arange(24, at::kFloat).view({2, 2, 6}).cos(),
               weight = at::tensor({1.0F, 0.5F, 2.0F, 1.0F}).view({2, 2});
  const Tensor labels = at::tensor({3, -100, 8, 0}, at::kLong).view({2, 2});
  const Batch batch;
  const Pass pass(batch);
  const Tensor nll = -head.logits(hidden, pass).log_softmax(-1);
  const float expected = (nll[0][0][3] + 2 * nll[1][0][8] + nll[1][1][0]).item<float>();
  EXPECT_NEAR(head.cross_entropy(hidden, labels, weight, pass).item<float>(), expected, 1e-5);
}
TEST(Head, ATiedOneHasNoWeightOfItsOwn) {
  Weight table({9, 6}, {}, true);
  Head head(6, 9, 0.02, &table);
  EXPECT_EQ(head.parameter_count(), 0);
  EXPECT_TRUE(head.tied());
  EXPECT_EQ(head.vocab_size(), 9);
}

}  // namespace
}  // namespace hone::nn
