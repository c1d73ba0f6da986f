// Rotary embedding against its meaning.
#include "ops/rope.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

RopeTable table(std::int64_t half, at::ScalarType type) {
  const Tensor angle = sample({6, half}, at::kDouble, 5);
  return {angle.cos().to(type), angle.sin().to(type), at::tensor({0, 5, 2, 2}, at::kLong)};
}
at::ScalarType wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Op rotate(std::int64_t half) {
  return [half](const auto& in) { return rope(in[0], table(half, wide(in[0]))); };
}
Op plain(std::int64_t half) {
  return [half](const auto& in) { return reference::rope(in[0], table(half, wide(in[0]))); };
}

TEST(Rope, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t half : {1, 3, 8, 17, 32})
    for (const std::int64_t heads : {1, 3}) expect_matches(rotate(half), plain(half), {sample({4, heads, 2 * half})});
}
TEST(Rope, GradientsAreThoseOfDifferences) { gradcheck(rotate(3), {sample({4, 2, 6})}); }
TEST(Rope, TurnsPairsByTheirAngle) {
  const Tensor x = at::tensor({1.0, 0.0}, at::kDouble).view({1, 1, 2});
  const RopeTable quarter{at::zeros({1, 1}, at::kDouble), at::ones({1, 1}, at::kDouble), at::zeros({1}, at::kLong)};
  expect_close(rope(x, quarter).flatten(), at::tensor({0.0, 1.0}, at::kDouble), 1e-12, "a quarter turn");
}
TEST(Rope, TakesNoTokens) {
  const RopeTable empty{at::empty({0, 4}), at::empty({0, 4}), at::empty({0}, at::kLong)};
  EXPECT_EQ(rope(at::empty({0, 2, 8}), empty).size(0), 0);
}

}  // namespace
}  // namespace hone::ops::test
