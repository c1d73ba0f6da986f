// EXPECT_CLOSE for tensors: prints the worst element, its index, both values and the tolerance.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

namespace hone::test {

// |got - expected| <= absolute + relative * |expected|, element by element.
struct Tolerance {
  double relative = 0, absolute = 0;
};

// The one table of tolerances, by the less precise of the two types.
inline Tolerance tolerance_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return {1e-9, 1e-11};
    case at::kFloat: return {1e-5, 1e-6};
    case at::kHalf: return {2e-3, 2e-3};
    case at::kBFloat16: return {1.6e-2, 1.6e-2};
    default: return {0, 0};  // integers and booleans: equal
  }
}
inline Tolerance tolerance_of(const at::Tensor& a, const at::Tensor& b) {
  const Tolerance one = tolerance_of(a.scalar_type()), other = tolerance_of(b.scalar_type());
  return one.relative > other.relative ? one : other;
}

// "[2, 0, 5]": the index of a flat position.
inline std::string index_text(int64_t flat, at::IntArrayRef sizes) {
  std::string text;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; flat /= sizes[d], --d)
    text = std::to_string(flat % sizes[d]) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

inline ::testing::AssertionResult close(const at::Tensor& got, const at::Tensor& expected, Tolerance tolerance) {
  if (!got.defined() || !expected.defined())
    return ::testing::AssertionFailure() << (got.defined() ? "expected" : "got") << " is an undefined tensor";
  if (got.sizes() != expected.sizes())
    return ::testing::AssertionFailure() << "got shape " << got.sizes() << ", expected " << expected.sizes();
  if (got.numel() == 0) return ::testing::AssertionSuccess();
  const at::Tensor a = got.detach().cpu().to(at::kDouble), b = expected.detach().cpu().to(at::kDouble);
  // How far beyond its tolerance each element is; equal infinities are close, a NaN only to a NaN.
  at::Tensor excess = (a - b).abs() - (tolerance.absolute + tolerance.relative * b.abs());
  const double inf = std::numeric_limits<double>::infinity();
  excess.masked_fill_(excess.isnan(), inf).masked_fill_((a == b) | (a.isnan() & b.isnan()), -inf);
  const int64_t worst = excess.argmax().item<int64_t>();
  if (excess.flatten()[worst].item<double>() <= 0) return ::testing::AssertionSuccess();
  const double x = a.flatten()[worst].item<double>(), y = b.flatten()[worst].item<double>();
  std::ostringstream text;
  text.precision(9);
  text << "worst element " << index_text(worst, got.sizes()) << " of " << got.sizes() << ": got " << x
       << ", expected " << y << ", difference " << std::abs(x - y) << ", tolerance "
       << tolerance.absolute + tolerance.relative * std::abs(y) << " (relative " << tolerance.relative << ", absolute "
       << tolerance.absolute << "); " << (excess > 0).sum().item<int64_t>() << " of " << got.numel()
       << " elements differ";
  return ::testing::AssertionFailure() << text.str();
}
inline ::testing::AssertionResult close(const at::Tensor& got, const at::Tensor& expected) {
  return close(got, expected, tolerance_of(got, expected));
}
// The absolute tolerance as a share of the largest expected value (at least 1): how parity of logits is stated.
inline ::testing::AssertionResult close_to_largest(const at::Tensor& got, const at::Tensor& expected, double share) {
  const double largest = expected.numel() == 0 ? 0 : expected.detach().abs().max().to(at::kDouble).item<double>();
  return close(got, expected, Tolerance{0, share * std::max(1.0, largest)});
}

}  // namespace hone::test

#define EXPECT_CLOSE(got, ...) EXPECT_TRUE(::hone::test::close(got, __VA_ARGS__)) << #got
#define ASSERT_CLOSE(got, ...) ASSERT_TRUE(::hone::test::close(got, __VA_ARGS__)) << #got
