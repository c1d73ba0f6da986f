// The op of docs/extending.md: its kernel against its meaning, and when it is taken.
#include "../../examples/plugins/op.cc"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

bool by_kernel(const Tensor& x) {
  return poly(x, 2).grad_fn()->name().find("PolyFunction") != std::string::npos;
}

TEST(ExampleOp, ItsKernelAgreesWithItsMeaning) {
  for (const double epsilon : {0.0, 2.0, -0.5})
    expect_matches([=](const auto& in) { return poly(in[0], epsilon); },
                   [=](const auto& in) { return plain_poly(in[0], epsilon); }, {sample({37}) - 2});
}

TEST(ExampleOp, ItsKernelIsTakenWhereItFits) {
  const Tensor x = sample({4, 6}, at::kFloat).requires_grad_();
  EXPECT_TRUE(by_kernel(x));
  EXPECT_FALSE(by_kernel(x.t()));
  EXPECT_FALSE(by_kernel(x.to(at::kDouble)));
  const LevelScope composed(Level::reference);
  EXPECT_FALSE(by_kernel(x));
}

}  // namespace
}  // namespace hone::ops::test
