// What a generated token waits for, on a GPU where there is one: attention against long caches and products of few
// rows, as bytes of keys, values and weights a second, beside a copy of memory.
//
//   cmake --build build/cuda --target bench_decoding && build/cuda/bench/decoding
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "ops/attention.h"
#include "ops/skinny.h"
#include "tensor/device.h"

namespace {

namespace ops = hone::ops;

at::Device device() {
  const std::vector<at::Device> all = hone::devices::all();
  const auto found = std::find_if(all.begin(), all.end(), [](at::Device each) { return each.is_cuda(); });
  return found == all.end() ? at::kCPU : *found;
}

at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, at::TensorOptions(device()).dtype(at::kBFloat16)); }

// GB/s: run() many times, one after another, and what it makes is read at the end.
double measured(double bytes, const std::function<at::Tensor()>& run) {
  constexpr int kWarm = 5, kTimes = 50;
  for (int i = 0; i < kWarm; ++i) run();
  run().cpu();
  const auto begin = std::chrono::steady_clock::now();
  at::Tensor last;
  for (int i = 0; i < kTimes; ++i) last = run();
  last.flatten().narrow(0, 0, 1).cpu();
  return bytes * kTimes / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 1e9;
}

void report(const std::string& what, double rate, double copied) {
  fmt::print("{:<48} {:>8.0f} GB/s  {:>4.0f} %\n", what, rate, 100 * rate / copied);
}

void attend(std::int64_t rows, std::int64_t heads, std::int64_t groups, std::int64_t length, double copied) {
  constexpr std::int64_t kSize = 128;
  const at::Tensor q = random({rows, heads, kSize}), k = random({rows, groups, length, kSize}), v = random(k.sizes());
  const at::Tensor held = at::full({rows}, length - 1, q.options().dtype(at::kLong));
  const double rate = measured(static_cast<double>(k.nbytes() + v.nbytes()),
                               [&] { return ops::decode_attention(q, k, v, held, {0.09}); });
  report(fmt::format("attention, {} x {} tokens, {} heads of {}", rows, length, heads, groups), rate, copied);
}

// Several weights in turn, so that none is left in a cache.
void multiply(std::int64_t rows, std::int64_t in, std::int64_t out, double copied) {
  const at::Tensor x = random({rows, in});
  std::vector<ops::LinearWeight> weights;
  for (int i = 0; i < 8; ++i) weights.push_back({random({out, in})});
  std::size_t next = 0;
  const auto turn = [&]() -> const ops::LinearWeight& { return weights[next++ % weights.size()]; };
  const auto bytes = static_cast<double>(weights[0].weight_OI.nbytes());
  const std::string shape = fmt::format("{} x {} -> {}", rows, in, out);
  report("product, " + shape, measured(bytes, [&] { return ops::skinny_products(x, {turn()})[0]; }), copied);
  const auto gated = [&] {
    const ops::LinearWeight &gate = turn(), &up = turn();
    return ops::skinny_gated(x, gate, up, ops::Activation::silu);
  };
  report("gated pair, " + shape, measured(2 * bytes, gated), copied);
}

}  // namespace

int main() {
  const at::NoGradGuard no_graph;
  const at::Tensor from = random({1 << 28}), to = at::empty_like(from);
  const double copied = measured(2.0 * static_cast<double>(from.nbytes()), [&] { return to.copy_(from); });
  report("copy", copied, copied);
  for (const std::int64_t length : {1024, 8192, 65536}) attend(1, 32, 8, length, copied);
  attend(1, 64, 8, 8192, copied);
  attend(32, 32, 8, 4096, copied);
  for (const std::int64_t rows : {1, 4, 8}) {
    multiply(rows, 4096, 14336, copied);
    multiply(rows, 14336, 4096, copied);
  }
}
