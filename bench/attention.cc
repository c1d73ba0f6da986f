// Attention forward + backward: ours against LibTorch's scaled_dot_product_attention, alternating.
//
//   cmake --build build/release --target bench_attention && build/release/bench/attention
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>

#include "ops/attention.h"
#include "ops/kernels.h"

namespace {

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

at::Tensor leaf(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape).to(type).requires_grad_(); }

struct Times {
  std::vector<double> forward, both;
  // Runs `attend` and its backward pass; the gradients are dropped.
  template <class Attend>
  void run(Attend&& attend, const at::Tensor& dy) {
    at::Tensor y;
    const double first = seconds([&] { y = attend(); });
    const double second = seconds([&] { torch::autograd::backward({y}, {dy}); });
    forward.push_back(first), both.push_back(first + second);
  }
};

void compare(std::int64_t documents, std::int64_t heads, std::int64_t length, std::int64_t size, at::ScalarType type) {
  const std::int64_t tokens = documents * length;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const at::Tensor q = leaf({tokens, heads, size}, type), k = leaf({tokens, heads, size}, type),
                   v = leaf({tokens, heads, size}, type), dy = at::randn({tokens, heads, size}).to(type);
  const at::Tensor their_q = leaf({documents, heads, length, size}, type), their_k = leaf(their_q.sizes(), type),
                   their_v = leaf(their_q.sizes(), type), their_dy = at::randn(their_q.sizes()).to(type);
  std::vector<hone::ops::Span> spans;
  for (std::int64_t d = 0; d < documents; ++d) spans.push_back({d * length, (d + 1) * length});
  Times ours, theirs;
  for (int i = 0; i < 8; ++i) {
    if (i == 1) ours = theirs = {};  // the first round warms up
    ours.run([&] { return hone::ops::attention(q, k, v, spans, {scale}); }, dy);
    theirs.run([&] { return at::scaled_dot_product_attention(their_q, their_k, their_v, {}, 0, /*is_causal=*/true); },
               their_dy);
    for (const at::Tensor& x : {q, k, v, their_q, their_k, their_v}) x.mutable_grad() = at::Tensor();
  }
  const double mine = median(ours.both), other = median(theirs.both);
  fmt::print(
      "{} x {} heads x {} x {}, {}: ours {:.1f} ms (forward {:.1f}), LibTorch {:.1f} ms (forward {:.1f}), ratio "
      "{:.2f}\n",
      documents, heads, length, size, c10::toString(type), 1e3 * mine, 1e3 * median(ours.forward), 1e3 * other,
      1e3 * median(theirs.forward), other / mine);
}

}  // namespace

int main() {
  fmt::print("level {}\n", hone::ops::name(hone::ops::level()));
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    compare(8, 8, 512, 64, type);
    compare(1, 8, 4096, 64, type);
  }
}
