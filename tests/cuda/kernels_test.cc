// The GPU's kernels, run by an emulated GPU, against plain ATen's primitives.
#include "cuda/emulated_gpu.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <gtest/gtest.h>

#include "ops/backend.h"

namespace hone::test::gpu::kernels {
#include "ops/cuda/kernels/prelude.cuh"
namespace rms {
#include "ops/cuda/kernels/rms_norm.cu"
}
namespace gates {
#include "ops/cuda/kernels/gated.cu"
}
namespace rotation {
#include "ops/cuda/kernels/rope.cu"
}
namespace losses {
#include "ops/cuda/kernels/cross_entropy.cu"
}
}  // namespace hone::test::gpu::kernels

namespace hone::test::gpu {
namespace {

// The types of kernels, and of their sums.
template <class T>
struct Of {
  using Element = T;
};
template <>
struct Of<at::BFloat16> {
  using Element = kernels::bf16;
};
template <class T>
auto* data(const at::Tensor& x) {
  return x.defined() ? reinterpret_cast<typename Of<T>::Element*>(x.data_ptr<T>()) : nullptr;
}
template <class T>
using Sum = typename kernels::Wide<typename Of<T>::Element>::type;
template <class T>
Sum<T>* sums(const at::Tensor& x) {
  return x.defined() ? x.data_ptr<Sum<T>>() : nullptr;
}
const long long* numbers(const at::Tensor& x) { return reinterpret_cast<const long long*>(x.data_ptr<std::int64_t>()); }

// Rounded once to the type, and sums in another order.
template <class T>
double tolerance() {
  return std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, float> ? 2e-6 : 1.0 / 128;
}

template <class T>
void expect_near(const at::Tensor& got, const at::Tensor& expected, const char* what, double times = 1) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  const at::Tensor a = got.to(at::kDouble), b = expected.to(at::kDouble);
  const double size = std::max(1.0, b.nan_to_num(0, 0, 0).abs().max().item<double>());
  EXPECT_TRUE(at::allclose(a, b, times * tolerance<T>(), times * tolerance<T>() * size, /*equal_nan=*/true))
      << what << ": " << (a - b).abs().nan_to_num(0, 0, 0).max().item<double>();
}

template <class T>
class GpuKernels : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(1); }
  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, at::kDouble).to(type_); }
  at::Tensor empty(at::IntArrayRef sizes) const { return at::full(sizes, std::nan(""), type_); }
  at::Tensor wide_empty(at::IntArrayRef sizes) const { return at::full(sizes, std::nan(""), at::toOpMathType(type_)); }
  static constexpr at::ScalarType type_ = c10::CppTypeToScalarType<T>::value;
  const ops::Backend& plain_ = ops::reference_backend();
};
using Types = ::testing::Types<float, double, at::BFloat16>;
TYPED_TEST_SUITE(GpuKernels, Types);

#define CALL(group, name, ...)                                                     \
  [&] {                                                                            \
    if constexpr (std::is_same_v<TypeParam, float>)                                \
      kernels::group::name##_float(__VA_ARGS__);                                   \
    else if constexpr (std::is_same_v<TypeParam, double>)                          \
      kernels::group::name##_double(__VA_ARGS__);                                  \
    else                                                                           \
      kernels::group::name##_bf16(__VA_ARGS__);                                    \
  }

TYPED_TEST(GpuKernels, RmsNorm) {
  using T = TypeParam;
  for (const std::int64_t columns : {1, 31, 33, 100, 1000})
    for (const std::int64_t rows : {1, 7, 40})
      for (const bool with_residual : {false, true}) {
        const at::Tensor x = this->random({rows, columns}), weight = this->random({columns}) + 1;
        const at::Tensor residual = with_residual ? this->random({rows, columns}) : at::Tensor();
        at::Tensor sum = with_residual ? this->empty({rows, columns}) : at::Tensor(), y = this->empty({rows, columns}),
                   inverse = this->wide_empty({rows});
        launch(3, 64, CALL(rms, rms_norm, data<T>(x), data<T>(residual), data<T>(weight), 1e-6, rows, columns,
                           data<T>(sum), data<T>(y), sums<T>(inverse)));
        const ops::RmsNormed made = this->plain_.norms.rms_norm(x, residual, weight, 1e-6);
        EXPECT_TRUE(!with_residual || at::equal(sum, made.sum));
        expect_near<T>(y, made.normed, "normed");
        expect_near<T>(inverse, made.inv_rms, "inverse");

        const at::Tensor dy = this->random({rows, columns}), dx = this->empty({rows, columns});
        const at::Tensor extra = with_residual ? this->random({rows, columns}) : at::Tensor();
        const at::Tensor weights = this->wide_empty({3, columns});
        launch(3, 64, CALL(rms, rms_norm_backward, data<T>(dy), data<T>(extra), data<T>(weight), data<T>(made.sum),
                           sums<T>(made.inv_rms), rows, columns, data<T>(dx), sums<T>(weights)));
        const ops::NormGradients back = this->plain_.norms.rms_norm_backward(dy, extra, weight, made);
        expect_near<T>(dx, back.x, "dx", 2);
        expect_near<T>(weights.sum(0), back.weight_BO.sum(0), "weights");
      }
}

TYPED_TEST(GpuKernels, Gated) {
  using T = TypeParam;
  for (const ops::Activation kind :
       {ops::Activation::silu, ops::Activation::gelu, ops::Activation::gelu_tanh, ops::Activation::relu}) {
    const std::int64_t count = 1000;
    const at::Tensor gate = this->random({count}) * 3, up = this->random({count}), dy = this->random({count});
    gate[3] = std::nan("");
    const at::Tensor y = this->empty({count}), dgate = this->empty({count}), dup = dy.clone();
    launch(2, 96, CALL(gates, gated, data<T>(gate), data<T>(up), static_cast<int>(kind), count, data<T>(y)));
    expect_near<T>(y, this->plain_.elementwise.gated(gate, up, kind), "y", 2);
    launch(2, 96, CALL(gates, gated_backward, data<T>(dup), data<T>(gate), data<T>(up), static_cast<int>(kind), count,
                       data<T>(dgate), data<T>(dup)));  // in place of dy
    const ops::GatedGradients made = this->plain_.elementwise.gated_backward(dy, gate, up, kind, false);
    expect_near<T>(dgate, made.gate, "gate", 2);
    expect_near<T>(dup, made.up, "up", 2);
  }
}

TYPED_TEST(GpuKernels, Rope) {
  using T = TypeParam;
  const std::int64_t tokens = 19, heads = 3, half = 5;
  const at::Tensor all = this->random({tokens, heads + 2, 2 * half}), x = all.narrow(1, 1, heads);
  const at::Tensor angles = at::randn({7, half}, at::toOpMathType(this->type_));
  const ops::RopeTable table{angles.cos(), angles.sin(), at::randint(7, {tokens}, at::kLong)};
  for (const int sign : {1, -1}) {
    const at::Tensor y = this->empty({tokens, heads, 2 * half}), expected = at::empty_like(y);
    launch(2, 64, CALL(rotation, rope, data<T>(x), x.stride(0), data<T>(y), y.stride(0), sums<T>(table.cos),
                       sums<T>(table.sin), numbers(table.rows_N), tokens, heads, half, sign));
    this->plain_.elementwise.rotate_into(expected, x, table, sign < 0);
    expect_near<T>(y, expected, "y");
    const at::Tensor place = x.contiguous();
    launch(1, 32, CALL(rotation, rope, data<T>(place), place.stride(0), data<T>(place), place.stride(0),
                       sums<T>(table.cos), sums<T>(table.sin), numbers(table.rows_N), tokens, heads, half, sign));
    EXPECT_TRUE(at::equal(place, y));
  }
}

TYPED_TEST(GpuKernels, CrossEntropy) {
  using T = TypeParam;
  const auto wide = at::toOpMathType(this->type_);
  for (const std::int64_t columns : {2, 33, 700})
    for (const ops::CrossEntropyOptions& options : {ops::CrossEntropyOptions{}, {0.1, 1e-2, nullptr}}) {
      const std::int64_t tokens = 6;
      const at::Tensor logits = this->random({tokens, columns}) * 4, weight = at::rand({tokens}, wide);
      logits[2][1] = -INFINITY;
      weight[1] = 0;
      const at::Tensor labels = at::randint(columns, {tokens}, at::kLong);
      labels[2] = 0;
      at::Tensor got = logits.clone(), expected = logits.clone();
      at::Tensor losses = this->wide_empty({tokens}), plain = at::empty_like(losses);
      at::Tensor statistics = this->wide_empty({tokens, 4}), plain_statistics = at::empty_like(statistics);
      launch(tokens, 96, CALL(losses, cross_entropy, data<T>(got), columns, numbers(labels), sums<T>(weight), 1,
                              options.label_smoothing, options.z_loss, sums<T>(losses), sums<T>(statistics)));
      this->plain_.sums.loss(expected, {labels, weight}, true, options, plain, plain_statistics);
      expect_near<T>(got, expected, "gradient");
      expect_near<float>(losses, plain, "losses", 4);
      expect_near<float>(statistics, plain_statistics, "statistics", 4);
      at::Tensor untouched = logits.clone(), again = this->wide_empty({tokens});
      launch(tokens, 96, CALL(losses, cross_entropy, data<T>(untouched), columns, numbers(labels), sums<T>(weight), 0,
                              options.label_smoothing, options.z_loss, sums<T>(again), nullptr));
      EXPECT_TRUE(at::equal(untouched, logits));
      EXPECT_TRUE(at::equal(again.nan_to_num(), losses.nan_to_num()));  // the same bits
    }
}

TEST(EmulatedGpu, NoticesThreadsThatNeverMeet) {
  EXPECT_ANY_THROW(launch(1, 64, [] {
    if (Block::now().thread() < 40) Block::now().meet();
  }));
}

}  // namespace
}  // namespace hone::test::gpu
