// Attention by AMX's kernels, with their instructions emulated where the machine has none, against those of AVX-512.
#include <gtest/gtest.h>

#include "ops/attention_direct.h"
#include "ops/levels.h"

#if defined(HONE_KERNELS_AMX)
namespace hone::ops::test {
namespace {

void expect_direct(const DirectResult& got, const DirectResult& expected, const std::string& where) {
  SCOPED_TRACE(where);
  // Both round their sums to bf16, 2^-9 of the number; shares are rounded too before they are summed.
  constexpr double kLimit = 1.0 / 128;
  EXPECT_LT(direct_difference(got.y, expected.y), kLimit);
  EXPECT_LT(direct_difference(got.dq, expected.dq), kLimit);
  EXPECT_LT(direct_difference(got.dk, expected.dk), kLimit);
  EXPECT_LT(direct_difference(got.dv, expected.dv), kLimit);
  EXPECT_LT(direct_difference(got.lse, expected.lse), 1e-5);
}

TEST(AttentionTiles, GiveWhatVectorsGive) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  for (AttentionShape shape : direct_shapes()) {
    const DirectInputs in = direct_inputs(shape);
    const auto run = [&](const auto& forward, const auto& backward, int byte) {
      return attend_directly(forward, backward, shape, in, byte);
    };
    const std::string where = "size " + std::to_string(shape.size) + " keys " + std::to_string(shape.keys) +
                              " window " + std::to_string(shape.window);
    const DirectResult expected =
        run(cpu::AVX512BF16::attention_forward<bf16>(), cpu::AVX512BF16::attention_backward<bf16>(), 0);
    const auto forward = cpu::AMX_EMULATED::attention_forward<bf16>();
    const auto backward = cpu::AMX_EMULATED::attention_backward<bf16>();
    for (const int byte : {0, 0xff})  // what was in memory before does not matter
      expect_direct(run(forward, backward, byte), expected, where);
    if (level() == Level::amx)
      expect_direct(run(cpu::AMX::attention_forward<bf16>(), cpu::AMX::attention_backward<bf16>(), 0), expected,
                    where + " by the CPU");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hone::ops::test
#endif
