// Shapes that do not fit are an error at every kernel level, as they are in the ops' meaning.
#include "ops/attention.h"
#include "ops/check.h"
#include "ops/cross_entropy.h"
#include "ops/experts.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/log_probs.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace hone::ops::test {
namespace {

Tensor of(at::IntArrayRef shape) { return sample(shape, at::kFloat, 1); }

template <class Run>
void expect_refused(const char* what, Run&& run) {
  each_level([&](const std::string& way) {
    for (const bool with_gradient : {true, false}) {
      const c10::AutoGradMode mode(with_gradient);
      EXPECT_ANY_THROW(run()) << what << ", " << way << (with_gradient ? "" : ", no gradient");
    }
  });
}

TEST(Shapes, OfProductsAndNorms) {
  for (const std::int64_t rows : {2, 40}) {
    const Tensor x = of({rows, 16});
    for (const std::int64_t in : {8, 32}) {
      const Tensor w = of({12, in}), y = of({rows, 12});
      expect_refused("linear", [&] { return linear(x, {w}); });
      expect_refused("linears", [&] { return linears(x, {{of({12, 16})}, {w}}); });
      expect_refused("gated_mlp", [&] { return gated_mlp(x, {{w}, {w}, {of({16, 12})}}, Activation::silu); });
      expect_refused("gated_linear", [&] { return gated_linear(x, x, Activation::silu, {w}); });
      expect_refused("rms_norm", [&] { return rms_norm(x, of({in}), 1e-6); });
      expect_refused("add_rms_norm", [&] { return add_rms_norm(x, x, of({in}), 1e-6).normed; });
      expect_refused("norm_linears", [&] { return norm_linears(x, {}, of({in}), 1e-6, {{of({12, 16})}}).products; });
      expect_refused("norm_linears", [&] { return norm_linears(x, {}, of({16}), 1e-6, {{w}}).products; });
      expect_refused("layer_norm", [&] { return layer_norm(x, of({in}), {}, 1e-6); });
      expect_refused("layer_norm", [&] { return layer_norm(x, of({16}), of({in}), 1e-6); });
    }
    expect_refused("bias", [&] { return linear(x, {of({12, 16}), of({11})}); });
    expect_refused("low rank", [&] {
      LinearWeight w{of({12, 16})};
      w.low_ranks = {{of({4, 16}), of({13, 4})}};
      return linear(x, w);
    });
  }
}
TEST(Shapes, OfHeads) {
  const Tensor labels = at::zeros({6}, at::kLong);
  for (const std::int64_t in : {8, 32}) {
    const Tensor head = of({20, in});
    expect_refused("loss", [&] { return linear_cross_entropy(of({6, 16}), head, labels, {}, {}, nullptr); });
    expect_refused("log_probs", [&] { return linear_log_probs(of({6, 16}), head, labels, false).log_probs_N; });
  }
}
TEST(Shapes, OfAttention) {
  const Tensor q = of({6, 4, 8});
  const auto attend = [&](const Tensor& k, const Tensor& v) { return attention(q, k, v, {{0, 6}}, {.scale = 1}); };
  expect_refused("head size", [&] { return attend(of({6, 4, 4}), of({6, 4, 4})); });
  expect_refused("heads", [&] { return attend(of({6, 3, 8}), of({6, 3, 8})); });
  expect_refused("values", [&] { return attend(of({6, 4, 8}), of({5, 4, 8})); });
  expect_refused("tokens", [&] { return attend(of({4, 4, 8}), of({4, 4, 8})); });
  expect_refused("documents", [&] { return attention(q, q, q, {{0, 7}}, {.scale = 1}); });
  const Tensor rows = at::arange(6, at::kLong);
  expect_refused("rope", [&] { return rope(q, {of({6, 8}), of({6, 8}), rows}); });
  expect_refused("rope's rows", [&] { return rope(q, {of({6, 4}), of({6, 4}), rows.narrow(0, 0, 5)}); });
}

}  // namespace
}  // namespace hone::ops::test
