// Plans of products by AMX: those that were fastest when they were measured, and what stays in the cache.
#include "ops/cpu/table/tile_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/levels.h"
#include "ops/matmul.h"

namespace hone::ops::cpu_table {
namespace {

using Share = TilePlan::Share;

TileShape shape(std::int64_t rows, std::int64_t depth, std::int64_t cols, int threads = 2) {
  const std::int64_t steps = (depth + 31) / 32, slices = (steps + 15) / 16;
  return {.rows = rows,
          .cols = cols,
          .steps = steps,
          .slices = slices,
          .slice_steps = (steps + slices - 1) / slices,
          .threads = threads};
}
TileShape weight_gradient(std::int64_t out, std::int64_t tokens, std::int64_t in) {
  TileShape s = shape(out, tokens, in);
  s.turned = s.wide = true;
  return s;
}

TEST(TilePlan, IsTheOneThatWasMeasured) {
  const auto expect = [](const TileShape& s, Share share, std::int64_t panels) {
    const TilePlan plan = tile_plan(s);
    EXPECT_EQ(plan.share, share) << s.rows << " x " << s.steps * 32 << " x " << s.cols;
    EXPECT_EQ(plan.panels, panels) << s.rows << " x " << s.steps * 32 << " x " << s.cols;
  };
  expect(shape(4096, 512, 512), Share::rows, 16);
  expect(shape(4096, 512, 256), Share::rows, 8);
  expect(shape(4096, 512, 1408), Share::rows, 22);
  expect(shape(4096, 1408, 512), Share::rows, 8);
  expect(shape(512, 512, 16384), Share::columns, 22);
  expect(shape(512, 16384, 512), Share::columns, 8);
  expect(weight_gradient(512, 4096, 512), Share::own_rows, 16);
  expect(weight_gradient(256, 4096, 512), Share::own_rows, 16);
  expect(weight_gradient(1408, 4096, 512), Share::own_rows, 16);
  expect(weight_gradient(512, 4096, 1408), Share::columns, 22);
  expect(weight_gradient(16384, 512, 512), Share::own_rows, 16);
}

TEST(TilePlan, LetsRowsOfOneSliceFollowOneAnotherWithoutABreak) {
  EXPECT_EQ(tile_plan(shape(4096, 512, 512)).rows, 512);
  EXPECT_EQ(tile_plan(shape(512, 512, 16384)).rows, 512);
  EXPECT_EQ(tile_plan(shape(4096, 1408, 512)).rows, 32);
}

#if defined(HONE_KERNELS_AMX)
TilePlan tried;

TEST(TilePlan, NoneChangesBits) {
  if (level() < Level::avx512bf16) GTEST_SKIP() << "needs a CPU with AVX-512 for bf16";
  const test::EmulatedAmx emulated;
  struct Usual {
    ~Usual() { plan_in_use = tile_plan; }
  } const usual;
  at::manual_seed(1);
  const std::int64_t rows = 203, depth = 1110, cols = 170;
  const auto random = [](std::int64_t m, std::int64_t n) { return at::randn({m, n}).to(at::kBFloat16); };
  const at::Tensor b = random(depth, cols);
  for (const at::Tensor& a : {random(rows, depth), random(depth, rows).t()})
    for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
      const auto product = [&] {
        at::Tensor out = at::zeros({rows, cols}, type);
        matmul_into(out, {{a, b}});
        return out;
      };
      plan_in_use = tile_plan;
      const at::Tensor expected = product();
      plan_in_use = [](const TileShape&) { return tried; };
      for (const Share share : {Share::rows, Share::own_rows, Share::columns})
        for (const std::int64_t panels : {1, 4, 6})
          for (const std::int64_t some : {32, 64, 224}) {
            const std::int64_t unit = share == Share::columns ? rows : share == Share::rows ? 128 : some;
            tried = {share, panels, share == Share::rows ? std::min(some, unit) : some, unit};
            EXPECT_TRUE(at::equal(product(), expected))
                << static_cast<int>(share) << " " << panels << " panels, " << some << " rows, " << type;
          }
    }
}
#endif

TEST(TilePlan, KeepsPanelsAndSumsInTheCacheAndThreadsAtWork) {
  for (const std::int64_t rows : {1, 31, 64, 500, 2048, 16384})
    for (const std::int64_t depth : {1, 32, 512, 896, 4864, 20000})
      for (const std::int64_t cols : {1, 64, 896, 4864, 151936})
        for (const int threads : {1, 2, 8})
          for (const int kind : {0, 1, 2}) {
            TileShape s = shape(rows, depth, cols, threads);
            s.turned = kind == 1, s.wide = kind > 0;
            const TilePlan plan = tile_plan(s);
            SCOPED_TRACE(testing::Message() << rows << " x " << depth << " x " << cols << " kind " << kind);
            ASSERT_GE(plan.panels, 1);
            ASSERT_GE(plan.rows, 1);
            ASSERT_GE(plan.unit_rows, 1);
            const bool whole = plan.rows <= 32 && plan.rows < rows && plan.share == Share::columns;
            EXPECT_LE(plan.panels * (whole ? s.steps : s.slice_steps) * 2048,
                      std::max<std::int64_t>(720896, s.steps * 2048));
            if (!s.wide && s.slices > 1) {
              EXPECT_LE(std::min(plan.rows, rows) * plan.panels * 128, std::max<std::int64_t>(1 << 20, rows * 128));
            }
            const std::int64_t panels = (cols + 31) / 32, blocks = (panels + plan.panels - 1) / plan.panels;
            const std::int64_t shares = plan.share == Share::columns ? 1 : (rows + plan.unit_rows - 1) / plan.unit_rows;
            const std::int64_t units = plan.share == Share::own_rows ? shares : blocks * shares;
            EXPECT_GE(4 * units, 3 * std::min<std::int64_t>(threads, std::max(panels, (rows + 31) / 32) / 2));
          }
}

}  // namespace
}  // namespace hone::ops::cpu_table
