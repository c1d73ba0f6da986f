// Rotary embedding against its meaning.
#include "ops/rope.h"

#include "ops/check.h"

namespace hone::ops::test {
namespace {

RopeTable table(std::int64_t half, at::ScalarType type) {
  const Tensor angle = sample({6, half}, at::kDouble, 5);
  return {angle.cos().to(type), angle.sin().to(type), at::tensor({0, 5, 2, 2}, at::kLong)};
}
at::ScalarType wide_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Op rotate(std::int64_t half) {
  return [half](const auto& in) { return rope(in[0], table(half, wide_type(in[0]))); };
}
Op plain_rope(std::int64_t half) {
  return [half](const auto& in) { return reference::rope(in[0], table(half, wide_type(in[0]))); };
}

TEST(Rope, EveryKernelAgreesWithItsMeaning) {
  for (const std::int64_t half : {1, 3, 8, 17, 32})
    for (const std::int64_t heads : {1, 3})
      expect_matches(rotate(half), plain_rope(half), {sample({4, heads, 2 * half})});
}
TEST(Rope, GradientsAreThoseOfDifferences) { gradcheck(rotate(3), {sample({4, 2, 6})}); }
TEST(Rope, TurnsPairsByTheirAngle) {
  const Tensor x = at::tensor({1.0, 0.0}, at::kDouble).view({1, 1, 2});
  const RopeTable quarter{at::zeros({1, 1}, at::kDouble), at::ones({1, 1}, at::kDouble), at::zeros({1}, at::kLong)};
  expect_close(rope(x, quarter).flatten(), at::tensor({0.0, 1.0}, at::kDouble), 1e-12, "a quarter turn");
}
TEST(Rope, RotatesASliceOfWiderRowsInPlaceAndBack) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const std::int64_t half : {3, 16, 32})
      for (const Level wanted : {Level::reference, Level::basic, Level::avx2, Level::avx512}) {
        const LevelScope scope(wanted);
        const Tensor rows = sample({4, 6, 2 * half}, type), before = rows.clone(), slice = rows.narrow(1, 1, 3);
        const RopeTable turns = table(half, wide_type(rows));
        rope_in_place(slice, turns, /*back=*/false);
        expect_close(slice, reference::rope(before.narrow(1, 1, 3), turns), tolerance(type), "in place");
        EXPECT_TRUE(rows.narrow(1, 0, 1).equal(before.narrow(1, 0, 1)) &&
                    rows.narrow(1, 4, 2).equal(before.narrow(1, 4, 2)));
        expect_close(rope(before.narrow(1, 1, 3), turns), slice, 0, "a strided slice out of place");
        rope_in_place(slice, turns, /*back=*/true);
        expect_close(slice, before.narrow(1, 1, 3), tolerance(type), "and back");
      }
}
TEST(Rope, TakesNoTokens) {
  const RopeTable empty{at::empty({0, 4}), at::empty({0, 4}), at::empty({0}, at::kLong)};
  EXPECT_EQ(rope(at::empty({0, 2, 8}), empty).size(0), 0);
}

}  // namespace
}  // namespace hone::ops::test
