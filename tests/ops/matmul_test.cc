// Matrix products: sizes of every kind, transposed factors, sums of several, rows that do not depend on one another.
#include "ops/matmul.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ops/check.h"
#include "ops/kernels.h"
#include "tensor/compare.h"

namespace hone::ops {
namespace {

at::Tensor random(std::int64_t rows, std::int64_t cols, at::ScalarType type, bool turned = false) {
  const at::Tensor x = at::randn(turned ? at::IntArrayRef{cols, rows} : at::IntArrayRef{rows, cols}).to(type);
  return turned ? x.t() : x;
}

at::Tensor exact(const std::vector<Factors>& factors) {
  at::Tensor sum;
  for (const Factors& f : factors) {
    const at::Tensor one = at::mm(f.a_MK.to(at::kDouble), f.b_KN.to(at::kDouble));
    sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

// The largest difference that rounding explains: of each value when it is stored, and of the sums.
double allowed(at::ScalarType out, const at::Tensor& expected, std::int64_t depth) {
  const double store = out == at::kBFloat16 ? 1.0 / 256 : 0;
  return expected.abs().max().item<double>() * store + 3e-7 * static_cast<double>(depth) + 1e-6;
}

void check(at::ScalarType type, at::ScalarType out_type, std::int64_t m, std::int64_t k, std::int64_t n, bool a_turned,
           bool b_turned, int count = 1, bool add = false) {
  std::vector<Factors> factors;
  for (int i = 0; i < count; ++i)
    factors.push_back({random(m, k + i, type, a_turned), random(k + i, n, type, b_turned)});
  at::Tensor expected = exact(factors);
  const at::Tensor before = at::randn({m, n}).to(out_type);
  if (add) expected = expected + before.to(at::kDouble);
  test::each_level([&](const std::string& way) {
    at::Tensor out = before.clone();
    matmul_into(out, factors, add);
    const double limit = allowed(out_type, expected, (k + count) * count);
    const double worst = (out.to(at::kDouble) - expected).abs().max().item<double>();
    EXPECT_LE(worst, limit) << way << " " << m << " x " << k << " x " << n << " turned " << a_turned << b_turned
                            << " factors " << count << " add " << add;
  });
}

TEST(Matmul, SizesAroundTilesAndLanes) {
  at::manual_seed(1);
  for (const std::int64_t m : {1, 2, 5, 6, 7, 11, 12, 13, 24, 37})
    for (const std::int64_t k : {1, 2, 3, 15, 16, 17, 33, 64})
      for (const std::int64_t n : {1, 7, 8, 15, 16, 17, 31, 32, 33, 65})
        for (int turned = 0; turned < 4; ++turned) {
          check(at::kFloat, at::kFloat, m, k, n, turned & 1, turned & 2);
          check(at::kBFloat16, at::kBFloat16, m, k, n, turned & 1, turned & 2);
        }
}

TEST(Matmul, LongSumsAreCutIntoSlices) {
  at::manual_seed(2);
  for (const std::int64_t k : {1024, 1025, 2049, 5001})
    for (int turned = 0; turned < 4; ++turned)
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        check(type, type, 50, k, 70, turned & 1, turned & 2);
        check(type, at::kFloat, 50, k, 70, turned & 1, turned & 2, 1, true);
      }
}

// Shapes for which threads share rows, or columns, or each packs all of the right factor for its own rows.
TEST(Matmul, EveryWayOfSharing) {
  at::manual_seed(7);
  struct Shape {
    std::int64_t m, k, n;
  };
  for (const Shape s : {Shape{300, 513, 200}, {40, 520, 900}, {33, 5000, 70}, {50, 5120, 70}, {500, 1100, 1000},
                        {1100, 70, 3000}})
    for (const bool turned : {false, true}) {
      check(at::kBFloat16, at::kBFloat16, s.m, s.k, s.n, turned, !turned);
      check(at::kBFloat16, at::kFloat, s.m, s.k, s.n, turned, false, 1, true);
      check(at::kBFloat16, at::kFloat, s.m, s.k, s.n, turned, true, 2, false);
    }
}

// By tiles a left factor whose lines share few sets of the cache is copied first.
TEST(Matmul, BitsDoNotDependOnHowFarLinesLieApart) {
  at::manual_seed(8);
  constexpr std::int64_t kApart = 1024, kRows = 75, kDepth = 610, kCols = 230;
  const at::Tensor b = random(kDepth, kCols, at::kBFloat16);
  for (const bool turned : {false, true}) {
    const at::Tensor all = random(turned ? kDepth : kRows, kApart, at::kBFloat16);
    const at::Tensor lines = all.narrow(1, 0, turned ? kRows : kDepth), close = lines.contiguous();
    for (const at::ScalarType type : {at::kBFloat16, at::kFloat})
      test::each_level([&](const std::string& way) {
        at::Tensor far = at::zeros({kRows, kCols}, type), near = at::zeros({kRows, kCols}, type);
        matmul_into(far, {{turned ? lines.t() : lines, b}});
        matmul_into(near, {{turned ? close.t() : close, b}});
        EXPECT_TRUE(at::equal(far, near)) << way << " turned " << turned << " " << type;
      });
  }
}

// Instructions that multiply pairs of bf16 know none, tiles neither.
TEST(Matmul, DenormalNumbersAreNothingToPairsAndTiles) {
  at::Tensor a = at::zeros({40, 64}, at::kBFloat16), b = at::ones({64, 40}, at::kBFloat16);
  a.fill_(1e-39);
  a[3][5] = 1;
  test::at_each_kernel_level([&](const std::string& way) {
    if (level() < Level::avx512bf16) return;
    at::Tensor out = at::empty({40, 40});
    matmul_into(out, {{a, b}});
    EXPECT_EQ(out[3].eq(1).sum().item<std::int64_t>(), 40) << way;
    EXPECT_EQ(out.count_nonzero().item<std::int64_t>(), 40) << way;
  });
}

TEST(Matmul, SumsOfSeveralProducts) {
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const int count : {2, 3}) {
      check(type, type, 30, 40, 50, false, false, count);
      check(type, type == at::kDouble ? type : at::kFloat, 30, 40, 50, true, false, count, true);
    }
}

TEST(Matmul, WritesIntoColumnsOfAnother) {
  at::manual_seed(4);
  const Factors f{random(40, 20, at::kFloat), random(20, 33, at::kFloat)};
  at::Tensor whole = at::zeros({40, 100});
  at::Tensor part = whole.narrow(1, 50, 33);
  matmul_into(part, {f});
  EXPECT_LE((part - at::mm(f.a_MK, f.b_KN)).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(whole.narrow(1, 0, 50).abs().sum().item<double>(), 0);
  EXPECT_EQ(whole.narrow(1, 83, 17).abs().sum().item<double>(), 0);
}

// Batch 8 x 1 and 1 x 8 give the same rows; so do one thread and two.
TEST(Matmul, ARowDoesNotDependOnTheOthers) {
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = random(200, 300, type), b = random(300, 90, type);
    test::at_each_kernel_level([&](const std::string& way) {
      at::Tensor all = at::empty({200, 90}, a.options());
      matmul_into(all, {{a, b}});
      for (const std::int64_t rows : {1, 3, 12, 31}) {
        at::Tensor some = at::empty({rows, 90}, a.options());
        matmul_into(some, {{a.narrow(0, 77, rows), b}});
        EXPECT_TRUE(at::equal(some, all.narrow(0, 77, rows))) << way << " " << rows;
      }
      at::Tensor alone = at::empty_like(all);
      {
        const test::Threads one(1);
        matmul_into(alone, {{a, b}});
      }
      EXPECT_TRUE(at::equal(alone, all)) << way;
    });
  }
}

TEST(Matmul, ARightFactorIsUsedSeveralTimes) {
  at::manual_seed(6);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const std::int64_t depth : {500, 2600})
      for (const bool turned : {false, true})
        test::each_level([&](const std::string& way) {
          const at::Tensor b = random(depth, 75, type, turned);
          RightFactor factor(b);
          for (const std::int64_t rows : {1, 40, 200}) {
            const at::Tensor a = random(rows, depth, type);
            at::Tensor out = at::empty({rows, 75}, a.options()), expected = at::empty_like(out);
            factor.multiply_into(out, a);
            matmul_into(expected, {{a, b}});
            EXPECT_TRUE(at::equal(out, expected)) << way << " " << depth << " " << rows;
          }
        });
}

TEST(Matmul, NanAndInfinityStayWhereTheyBelong) {
  at::Tensor a = at::ones({14, 3}).to(at::kBFloat16), b = at::ones({3, 40}).to(at::kBFloat16);
  a[5][2] = NAN, b[1][33] = INFINITY;
  at::Tensor out = at::empty({14, 40}, a.options());
  matmul_into(out, {{a, b}});
  const at::Tensor expected = at::mm(a.to(at::kFloat), b.to(at::kFloat));
  EXPECT_TRUE(at::equal(out.isnan(), expected.isnan()));
  EXPECT_TRUE(at::equal(out.isinf(), expected.isinf()));
}

}  // namespace
}  // namespace hone::ops
