// act(gate) * up against its meaning.
#include "ops/gated.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

constexpr Activation kAll[] = {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu};
Op fast_gated(Activation a) {
  return [a](const auto& in) { return gated(in[0], in[1], a); };
}
Op plain(Activation a) {
  return [a](const auto& in) { return reference::gated(in[0], in[1], a); };
}

TEST(Gated, EveryKernelAgreesWithItsMeaning) {
  for (const Activation a : kAll)
    for (const std::int64_t count : {1, 15, 16, 17, 1000})
      expect_matches(fast_gated(a), plain(a), {sample({2, count}) * 4, sample({2, count}, at::kDouble, 2)});
}
TEST(Gated, GradientsAreThoseOfDifferences) {
  for (const Activation a : kAll) gradcheck(fast_gated(a), {sample({3, 4}), sample({3, 4}, at::kDouble, 2)});
}
TEST(Gated, ExtremesStayFinite) {
  const Tensor gate = at::tensor({-1e4, -100.0, -88.0, 0.0, 88.0, 100.0, 1e4}, at::kFloat), up = at::ones({7});
  for (const Activation a : kAll) expect_close(gated(gate, up, a), reference::gated(gate, up, a), 1e-6, "extremes");
}
// The product that comes with its gradients is the one that the forward pass made.
TEST(Gated, ItsProductIsTheSameInBothPasses) {
  each_level([](const std::string& way) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const Activation a : kAll) {
        const Tensor gate = sample({7, 41}).to(type), up = sample({7, 41}, at::kDouble, 2).to(type);
        const GatedGradients made = gated_backward(sample({7, 41}, at::kDouble, 3).to(type), gate, up, a,
                                                   {.inner = true});
        EXPECT_TRUE(made.inner.equal(gated(gate, up, a))) << way << " " << type << " " << static_cast<int>(a);
        EXPECT_FALSE(gated_backward(up, gate, up, a).inner.defined());
      }
  });
}
TEST(Gated, TakesNothing) { EXPECT_EQ(gated(at::empty({0, 3}), at::empty({0, 3}), Activation::silu).numel(), 0); }

}  // namespace
}  // namespace hone::ops::test
