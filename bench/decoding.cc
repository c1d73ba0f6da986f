// What a generated token waits for, on a GPU where there is one: attention against long caches and products of few
// rows, as bytes of keys, values and weights a second, beside a copy of memory; on a CPU beside reading it.
//
//   cmake --build build/cuda --target bench_decoding && build/cuda/bench/decoding
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/attention.h"
#include "ops/backend.h"
#include "ops/recording.h"
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

// GB/s: run() many times, one after another, and what it makes is read at the end. On a CPU the best of some rounds.
double measured(double bytes, const std::function<at::Tensor()>& run) {
  const bool on_cpu = device().is_cpu();
  const int rounds = on_cpu ? 5 : 1, times = on_cpu ? 10 : 50;
  for (int i = 0; i < 5; ++i) run();
  run().cpu();
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    at::Tensor last;
    for (int i = 0; i < times; ++i) last = run();
    last.flatten().narrow(0, 0, 1).cpu();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return bytes * times / best / 1e9;
}

void report(const std::string& what, double rate, double copied) {
  fmt::print("{:<48} {:>8.0f} GB/s  {:>4.0f} %\n", what, rate, 100 * rate / copied);
}

// GB/s at best of threads that only read.
double read_rate() {
  const at::Tensor from = at::ones({std::int64_t{1} << 28}, at::kInt);
  const auto* all = from.const_data_ptr<std::int32_t>();
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    std::atomic<std::int64_t> sum{0};
    const auto begin = std::chrono::steady_clock::now();
    at::parallel_for(0, from.numel(), 1 << 20, [&](std::int64_t first, std::int64_t last) {
      std::int32_t part[128] = {};  // so many sums that none is waited for
      for (std::int64_t at = first; at < last; at += 128)
        for (int lane = 0; lane < 128; ++lane) part[lane] += all[at + lane];
      sum += std::accumulate(part, part + 128, std::int64_t{0});
    });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (sum != from.numel()) throw std::logic_error("a wrong sum");
  }
  return static_cast<double>(from.nbytes()) / best / 1e9;
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
  const std::int64_t count = std::max<std::int64_t>(x.is_cpu() ? 2 : 8, (std::int64_t{64} << 20) / (2 * in * out));
  for (std::int64_t i = 0; i < count; ++i) weights.push_back({random({out, in})});
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

// A layer of a model of 1B (Llama 3.2's shape).
struct Layer {
  static constexpr std::int64_t kHidden = 2048, kHeads = 32, kGroups = 8, kSize = 64, kInner = 8192, kRoom = 8192;
  static ops::LinearWeight of(std::int64_t outs, std::int64_t in) { return {random({outs, in}) / 45}; }
  at::Tensor norm = random({kHidden}), second_norm = random({kHidden});
  ops::LinearWeight q = of(kHidden, kHidden), k = of(kGroups * kSize, kHidden), v = of(kGroups * kSize, kHidden),
                    o = of(kHidden, kHidden), gate = of(kInner, kHidden), up = of(kInner, kHidden),
                    down = of(kHidden, kInner);
  at::Tensor k_cache = random({1, kGroups, kRoom, kSize}), v_cache = random({1, kGroups, kRoom, kSize});
  double bytes() const {
    return static_cast<double>(kHidden * (2 * kHidden + 2 * kGroups * kSize + 3 * kInner)) * sizeof(at::BFloat16);
  }
};

// A token of one row through all layers, remembered, whose caches have room for so many entries and hold all but a few.
void go_through(const std::vector<Layer>& layers, std::int64_t room, bool chained, double copied) {
  ::setenv("HONE_CHAINS", chained ? "1" : "0", 1);
  const at::Tensor table = random({8, Layer::kHidden}), first = at::zeros({1}, table.options().dtype(at::kLong));
  const at::Tensor held = at::full({1}, room - 8, first.options());
  const at::Tensor angles = at::randn({room, Layer::kSize / 2}, table.options().dtype(at::kFloat));
  const ops::RopeTable rope{angles.cos(), angles.sin(), held};
  const ops::Backend& gpu = *ops::backend_for({table});
  at::Tensor made;
  const auto step = [&] {
    at::Tensor x = at::embedding(table, first), residual;
    for (const Layer& layer : layers) {
      const auto a = gpu.products.norm_skinny({x, residual, layer.norm, 1e-5}, {layer.q, layer.k, layer.v});
      const auto heads = [&](std::size_t i, std::int64_t count) {
        return a.products[i].view({1, count, Layer::kSize});
      };
      const ops::CacheRoom cache{layer.k_cache.narrow(2, 0, room), layer.v_cache.narrow(2, 0, room), true};
      const at::Tensor y = gpu.attention.decode_new(
          {heads(0, Layer::kHeads), heads(1, Layer::kGroups), heads(2, Layer::kGroups), rope}, cache, held, {0.125});
      const at::Tensor b = gpu.products.skinny(y.view({1, -1}), {layer.o})[0];
      const auto c = gpu.products.norm_skinny_gated({b, a.sum, layer.second_norm, 1e-5}, layer.gate, layer.up,
                                                    ops::Activation::silu);
      residual = c.sum, x = gpu.products.skinny(c.products[0], {layer.down})[0];
    }
    made = x;
  };
  step();
  const std::unique_ptr<ops::Recording> recording = gpu.make_recording();
  recording->record(step);
  const double bytes = static_cast<double>(layers.size()) * layers[0].bytes();
  const double rate = measured(bytes, [&] { return recording->replay(), made; });
  report(fmt::format("{} layers, {} entries, {}: {:.1f} us each", layers.size(), room, chained ? "a chain" : "launches",
                     bytes / rate / 1e3 / static_cast<double>(layers.size())),
         rate, copied);
}

// A CPU's, in the sizes of models of 32 M and 0.5 B.
void on_a_cpu() {
  const double read = read_rate();
  report("reading", read, read);
  attend(1, 14, 2, 2048, read);
  for (const std::int64_t rows : {1, 4, 5, 8, 16})
    for (const auto& [in, out] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {512, 512}, {512, 1408}, {1408, 512}, {512, 16384}, {896, 4864}, {4864, 896}, {896, 151936}}) {
      if (in * out > 1 << 26 && rows == 16) continue;
      multiply(rows, in, out, read);
    }
}

}  // namespace

int main() {
  const at::NoGradGuard no_graph;
  if (device().is_cpu()) return on_a_cpu(), 0;
  const at::Tensor from = random({1 << 28}), to = at::empty_like(from);
  const double copied = measured(2.0 * static_cast<double>(from.nbytes()), [&] { return to.copy_(from); });
  report("copy", copied, copied);
  const std::vector<Layer> layers(16);
  for (const std::int64_t room : {128, 256, 4096})
    for (const bool chained : {false, true}) go_through(layers, room, chained, copied);
  for (const std::int64_t length : {1024, 8192, 65536}) attend(1, 32, 8, length, copied);
  attend(1, 64, 8, 8192, copied);
  attend(32, 32, 8, 4096, copied);
  for (const std::int64_t rows : {1, 4, 8}) {
    multiply(rows, 4096, 14336, copied);
    multiply(rows, 14336, 4096, copied);
  }
}
