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

// `by_token`: LibTorch gets its tensors as projections leave them, [documents, length, heads, size] seen as [documents,
// heads, length, size]; else contiguous. Ours always gets them as projections leave them.
void compare(std::int64_t documents, std::int64_t heads, std::int64_t length, std::int64_t size, at::ScalarType type,
             bool by_token) {
  const std::int64_t tokens = documents * length;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const at::Tensor q = leaf({tokens, heads, size}, type), k = leaf({tokens, heads, size}, type),
                   v = leaf({tokens, heads, size}, type), dy = at::randn({tokens, heads, size}).to(type);
  const std::vector<std::int64_t> theirs_shape = by_token ? std::vector{documents, length, heads, size}
                                                          : std::vector{documents, heads, length, size};
  const auto theirs_of = [&](const at::Tensor& x) { return by_token ? x.transpose(1, 2) : x; };
  const at::Tensor their_q = leaf(theirs_shape, type), their_k = leaf(theirs_shape, type),
                   their_v = leaf(theirs_shape, type), their_dy = theirs_of(at::randn(theirs_shape).to(type));
  std::vector<hone::ops::Span> spans;
  for (std::int64_t d = 0; d < documents; ++d) spans.push_back({d * length, (d + 1) * length});
  Times ours, theirs;
  for (int i = 0; i < 8; ++i) {
    if (i == 1) ours = theirs = {};  // the first round warms up
    ours.run([&] { return hone::ops::attention(q, k, v, spans, {scale}); }, dy);
    theirs.run(
        [&] {
          return at::scaled_dot_product_attention(theirs_of(their_q), theirs_of(their_k), theirs_of(their_v), {}, 0,
                                                  /*is_causal=*/true);
        },
        their_dy);
    for (const at::Tensor& x : {q, k, v, their_q, their_k, their_v}) x.mutable_grad() = at::Tensor();
  }
  const double mine = median(ours.both), other = median(theirs.both);
  fmt::print("{} x {} heads x {} x {}, {}, {}: ours {:.1f} ms (forward {:.1f}), LibTorch {:.1f} ms (forward {:.1f}), ratio {:.2f}\n",
             documents, heads, length, size, c10::toString(type), by_token ? "by token" : "by head", 1e3 * mine, 1e3 * median(ours.forward), 1e3 * other,
             1e3 * median(theirs.forward), other / mine);
}

}  // namespace

int main() {
  fmt::print("level {}\n", hone::ops::name(hone::ops::level()));
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    for (const bool by_token : {false, true}) {
      compare(8, 8, 512, 64, type, by_token);
      compare(1, 8, 4096, 64, type, by_token);
    }
  }
}
