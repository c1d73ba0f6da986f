// Matrix products of a Llama's training step: ours against LibTorch's (oneDNN for bf16, MKL for fp32), alternating.
//
//   cmake --build build/release --target bench_matmul && build/release/bench/matmul [--tokens=4096] [--model=32m|0.5b]
//       [--type=bf16|fp32] [--chosen]
//
// The head's rows are those of one chunk of the loss. --chosen: fp32 by whom it is multiplied on this CPU, which may be
// LibTorch; else by ours.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "ops/kernels.h"
#include "ops/matmul.h"

namespace {

using hone::ops::Factors;

template <class Run>
double seconds(Run&& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void compare(const char* what, const Factors& f, at::ScalarType out_type) {
  const std::int64_t m = f.a_MK.size(0), k = f.a_MK.size(1), n = f.b_KN.size(1);
  at::Tensor ours = at::empty({m, n}, f.a_MK.options().dtype(out_type)), theirs = at::empty({m, n}, f.a_MK.options());
  const auto run_ours = [&] { hone::ops::matmul_into(ours, {f}); };
  const auto run_theirs = [&] { at::mm_out(theirs, f.a_MK, f.b_KN); };
  run_ours(), run_theirs();
  std::vector<double> mine, other;
  for (int i = 0; i < 9; ++i) mine.push_back(seconds(run_ours)), other.push_back(seconds(run_theirs));
  const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  fmt::print("{:<10} {:>6} x {:>6} x {:>6}  ours {:>6.0f} GFLOP/s  LibTorch {:>6.0f}  ratio {:.2f}\n", what, m, k, n,
             flop / median(mine) / 1e9, flop / median(other) / 1e9, median(other) / median(mine));
}

void layer(const char* name, std::int64_t tokens, std::int64_t in, std::int64_t out, at::ScalarType type) {
  const at::Tensor x = at::randn({tokens, in}).to(type), w = at::randn({out, in}).to(type);
  const at::Tensor dy = at::randn({tokens, out}).to(type);
  fmt::print("{} {} -> {}, {}\n", name, in, out, c10::toString(type));
  compare("forward", {x, w.t()}, type);
  compare("input", {dy, w}, type);
  compare("weight", {dy.t(), x}, at::kFloat);
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t tokens = 4096;
  bool large = false, chosen = false;
  std::vector<at::ScalarType> types = {at::kBFloat16, at::kFloat};
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--tokens=", 9) == 0) tokens = std::atoll(argv[i] + 9);
    large = large || std::strcmp(argv[i], "--model=0.5b") == 0;
    chosen = chosen || std::strcmp(argv[i], "--chosen") == 0;
    if (std::strcmp(argv[i], "--type=bf16") == 0) types = {at::kBFloat16};
    if (std::strcmp(argv[i], "--type=fp32") == 0) types = {at::kFloat};
  }
  const auto products = chosen ? hone::ops::fp32_products() : hone::ops::Fp32Products::ours;
  const hone::ops::Fp32ProductsScope scope(products);
  fmt::print("level {}, fp32 products {}\n", hone::ops::name(hone::ops::level()), hone::ops::name(products));
  for (const at::ScalarType type : types) {
    if (large) {
      layer("q, o", tokens, 896, 896, type);
      layer("k, v", tokens, 896, 128, type);
      layer("gate, up", tokens, 896, 4864, type);
      layer("down", tokens, 4864, 896, type);
      layer("head", std::min<std::int64_t>(tokens, 512), 896, 151936, type);
      continue;
    }
    layer("q, o", tokens, 512, 512, type);
    layer("k, v", tokens, 512, 256, type);
    layer("gate, up", tokens, 512, 1408, type);
    layer("down", tokens, 1408, 512, type);
    layer("head", 512, 512, 16384, type);
  }
}
