// The ways to share and cut each bf16 product of a training step by AMX: the one that is used beside the fastest.
//
//   cmake --build build/release --target bench_tile_plans && build/release/bench/tile_plans [--model=32m|125m|0.5b]
//
// The numbers in src/ops/cpu/table/tile_plan.cc are to give plans that are near the fastest. A plan: who shares what,
// panels of the right factor at a time, rows that go through all slices of depth before the next ones, rows of a unit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/cpu/table/tile_plan.h"
#include "ops/kernels.h"
#include "ops/matmul.h"

namespace {

using hone::ops::Factors;
using hone::ops::cpu_table::TilePlan;
using hone::ops::cpu_table::TileShape;

std::optional<TilePlan> tried;
TilePlan used;

TilePlan plan(const TileShape& shape) {
  if (!tried) return used = hone::ops::cpu_table::tile_plan(shape);
  return *tried;
}

std::string text(const TilePlan& p) {
  const char* names[] = {"rows", "own_rows", "columns"};
  return fmt::format("{} {} panels, {} rows of {}", names[static_cast<int>(p.share)], p.panels, p.rows, p.unit_rows);
}

// At best: other users of the machine only make it longer.
double seconds(const std::function<void()>& run, int times) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

std::vector<TilePlan> plans(std::int64_t rows, std::int64_t cols) {
  const std::int64_t share = (rows / at::get_num_threads() + 31) / 32 * 32, all = (cols + 31) / 32;
  std::vector<TilePlan> made;
  for (const std::int64_t most : {2, 4, 7, 8, 11, 14, 16, 22, 24, 28, 44}) {
    if (most > all && most > 2) continue;
    const std::int64_t panels = std::min(most, all);
    for (const std::int64_t unit : {std::int64_t{256}, std::int64_t{512}, share}) {
      if (unit > share) continue;
      for (const std::int64_t some : {std::int64_t{32}, std::int64_t{256}, unit})
        if (some <= unit) made.push_back({TilePlan::Share::rows, panels, some, unit});
      made.push_back({TilePlan::Share::own_rows, panels, unit, unit});
    }
    for (const std::int64_t some : {std::int64_t{32}, rows})
      made.push_back({TilePlan::Share::columns, panels, some, rows});
  }
  return made;
}

void compare(const char* what, const Factors& f, at::ScalarType out_type) {
  const std::int64_t m = f.a_MK.size(0), k = f.a_MK.size(1), n = f.b_KN.size(1);
  at::Tensor out = at::empty({m, n}, f.a_MK.options().dtype(out_type));
  const auto run = [&] { hone::ops::matmul_into(out, {f}); };
  tried.reset();
  const int times = m * k * n > std::int64_t{1} << 34 ? 3 : 7;
  const double now = seconds(run, times);
  std::vector<std::pair<double, TilePlan>> others;
  for (const TilePlan& other : plans(m, n)) {
    tried = other;
    others.emplace_back(seconds(run, times), other);
  }
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  tried.reset();
  const double again = std::min(now, seconds(run, times));
  const auto rate = [&](double time) { return 2e-9 * static_cast<double>(m) * static_cast<double>(k * n) / time; };
  fmt::print("{:<8} {:>6} x {:>6} x {:>6}  {:>5.0f} GFLOP/s  {:<40}", what, m, k, n, rate(again), text(used));
  for (int i = 0; i < 3; ++i) fmt::print(" | {:>5.0f} {}", rate(others[i].first), text(others[i].second));
  fmt::print("\n");
  std::fflush(stdout);
}

void layer(std::int64_t tokens, std::int64_t in, std::int64_t out) {
  const auto random = [](std::int64_t a, std::int64_t b) { return at::randn({a, b}).to(at::kBFloat16); };
  const at::Tensor x = random(tokens, in), w = random(out, in), dy = random(tokens, out);
  compare("forward", {x, w.t()}, at::kBFloat16);
  compare("input", {dy, w}, at::kBFloat16);
  compare("weight", {dy.t(), x}, at::kFloat);
}

}  // namespace

int main(int argc, char** argv) {
  std::string model = "32m";
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--model=", 8) == 0) model = argv[i] + 8;
  if (hone::ops::level() != hone::ops::Level::amx) {
    fmt::print("level {}: there are no tiles\n", hone::ops::name(hone::ops::level()));
    return 1;
  }
  hone::ops::cpu_table::plan_in_use = plan;
  struct Model {
    std::int64_t tokens, hidden, kv, inner, vocab;
  };
  const Model m = model == "0.5b"   ? Model{1024, 896, 128, 4864, 151936}
                  : model == "125m" ? Model{4096, 768, 384, 2112, 32000}
                                    : Model{4096, 512, 256, 1408, 16384};
  layer(m.tokens, m.hidden, m.hidden);
  layer(m.tokens, m.hidden, m.kv);
  layer(m.tokens, m.hidden, m.inner);
  layer(m.tokens, m.inner, m.hidden);
  layer(512, m.hidden, m.vocab);  // of a chunk of the loss
}
