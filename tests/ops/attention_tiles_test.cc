// Attention by AMX's kernels, with their instructions emulated where the machine has none, against its definition.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/attention_exact.h"
#include "ops/levels.h"

#if defined(HONE_KERNELS_AMX)
namespace hone::ops::test {
namespace {

using Forward = cpu::AttentionForward<bf16>;
using Backward = cpu::AttentionBackward<bf16>;

void expect_near(const DirectResult& got, const ExactResult& exact) {
  // Results are rounded to bf16, 2^-9 of the number; so are shares and slopes before they are summed, and y, which is
  // subtracted from what may be nearly the same.
  EXPECT_LT(direct_difference(got.y, exact.y), 1.0 / 128);
  EXPECT_LT(direct_difference(got.lse, exact.lse), 1e-5);
  if (got.dk.empty()) return;
  EXPECT_LT(direct_difference(got.dq, exact.dq), 1.0 / 64);
  EXPECT_LT(direct_difference(got.dk, exact.dk), 1.0 / 64);
  EXPECT_LT(direct_difference(got.dv, exact.dv), 1.0 / 128);
}

std::string name_of(const AttentionShape& s) {
  return fmt::format("{} queries, {} keys, size {}, window {}, ahead {}, cap {}, dropout {}", s.queries, s.keys, s.size,
                     s.window, s.ahead, s.soft_cap, s.dropout.rate);
}

TEST(AttentionTiles, GiveWhatTheDefinitionGives) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  for (AttentionShape shape : direct_shapes()) {
    SCOPED_TRACE(name_of(shape));
    const DirectInputs in = direct_inputs(shape);
    const ExactResult exact = attend_exactly(shape, in);
    const Forward forward = cpu::AMX_EMULATED::attention_forward<bf16>();
    const Backward backward = cpu::AMX_EMULATED::attention_backward<bf16>();
    const DirectResult got = attend_directly(forward, backward, shape, in, 0);
    expect_near(got, exact);
    // What was in memory before does not matter.
    const DirectResult again = attend_directly(forward, backward, shape, in, 0xff);
    for (const auto x : {&DirectResult::y, &DirectResult::dq, &DirectResult::dk, &DirectResult::dv})
      EXPECT_EQ(direct_difference(again.*x, got.*x), 0);
    EXPECT_EQ(again.lse, got.lse);
    if (level() == Level::amx) {
      SCOPED_TRACE("by the CPU");
      expect_near(
          attend_directly(cpu::AMX::attention_forward<bf16>(), cpu::AMX::attention_backward<bf16>(), shape, in, 0),
          exact);
    }
    if (HasFailure()) return;
  }
}

// Far above all before, where sums of earlier keys are there already: they become nearly nothing, but not quite.
TEST(AttentionTiles, TakeScoresThatRise) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  for (const std::int64_t first : {20, 500, 600, 1090})
    for (const float factor : {4.0f, 60.0f, 1e4f}) {
      AttentionShape shape{45, 1100, 64, 0, 0.3};
      DirectInputs in = direct_inputs(shape);
      for (std::size_t i = first * shape.size; i < in.k.size(); ++i) in.k[i] = static_cast<float>(in.k[i]) * factor;
      SCOPED_TRACE(fmt::format("from {}, by {}", first, factor));
      expect_near(attend_directly(cpu::AMX_EMULATED::attention_forward<bf16>(),
                                  cpu::AMX_EMULATED::attention_backward<bf16>(), shape, in, 0xff),
                  attend_exactly(shape, in));
    }
}

// A key that is not there has a score of 0, here 2^128 times the sum of those that are there: an infinite share.
TEST(AttentionTiles, GiveNothingToKeysThatAreNotThere) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  for (const std::int64_t length : {5, 33, 290}) {
    SCOPED_TRACE(length);
    AttentionShape shape{length, length, 1, 0, 128 * std::log(2.0) + std::log(length), {}, length};
    DirectInputs in = direct_inputs(shape);
    for (bf16& x : in.q) x = 1;
    for (bf16& x : in.k) x = -1;
    const DirectResult got = attend_directly(cpu::AMX_EMULATED::attention_forward<bf16>(),
                                             cpu::AMX_EMULATED::attention_backward<bf16>(), shape, in, 0xff);
    const ExactResult exact = attend_exactly(shape, in);
    EXPECT_LT(direct_difference(got.lse, exact.lse), 1e-5);
    EXPECT_LT(direct_difference(got.dv, exact.dv), 1.0 / 128);
    for (const auto* x : {&got.y, &got.dq, &got.dk})
      for (const bf16 value : *x) EXPECT_TRUE(std::isfinite(static_cast<float>(value)));
  }
}

}  // namespace
}  // namespace hone::ops::test
#endif
