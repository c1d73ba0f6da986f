// What op tests share: samples, gradients, comparison with the plain meaning at every kernel level, gradcheck in
// double.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ops/backend.h"
#include "ops/kernels.h"
#include "ops/levels.h"
#include "tensor/compare.h"

namespace hone::ops::test {

using at::Tensor;

inline Tensor sample(at::IntArrayRef shape, at::ScalarType type = at::kDouble, std::uint64_t seed = 1) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kDouble)).to(type);
}

using Op = std::function<Tensor(const std::vector<Tensor>&)>;

struct Result {
  Tensor value;
  std::vector<Tensor> gradients;
};

// The value, and the gradients of sum(value * weights) for fixed weights.
inline Result value_and_gradients(const Op& op, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.detach().clone().requires_grad_(true));
  const Tensor value = op(leaves);
  const Tensor weights = sample(value.sizes(), value.scalar_type(), 99);
  if (value.requires_grad()) (value * weights).sum().backward();
  Result result{value.detach(), {}};
  for (const Tensor& leaf : leaves)
    result.gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  return result;
}

inline double tolerance(at::ScalarType type) { return type == at::kDouble ? 1e-11 : type == at::kFloat ? 3e-5 : 3e-2; }

inline void expect_close(const Tensor& got, const Tensor& expected, double relative, const std::string& what) {
  EXPECT_EQ(difference(got, expected, relative * std::max(1.0, largest(expected))), "") << what;
}

// At each kernel level, at this machine's with LibTorch's fp32 products, and with the reference's table.
inline void each_level(const std::function<void(const std::string& way)>& run) {
  at_each_kernel_level([&](const std::string& name) { run("level " + name); });
  {
    const Fp32ProductsScope scope(Fp32Products::libtorch);
    run("LibTorch's fp32 products");
  }
  const BackendScope scope(reference_backend());
  run("reference table");
}

// The op in each of these ways against its meaning; both get the same inputs in `type`.
inline void expect_matches(const Op& op, const Op& meaning, const std::vector<Tensor>& inputs, at::ScalarType type) {
  std::vector<Tensor> typed;
  for (const Tensor& x : inputs) typed.push_back(x.to(type));
  // fp32 is compared with the meaning in fp64: the meaning's own fp32 sums are no better than the kernels'.
  std::vector<Tensor> exact;
  for (const Tensor& x : typed) exact.push_back(type == at::kFloat ? x.to(at::kDouble) : x);
  const Result plain = value_and_gradients(meaning, exact);
  each_level([&](const std::string& way) {
    const Result fast = value_and_gradients(op, typed);
    const std::string where = std::string(c10::toString(type)) + " " + way;
    // With AVX2 LibTorch's fp32 sums of 70,001 terms are off by 5e-5; the reference table's products are its too.
    const double allowed = tolerance(type) * (type == at::kFloat && !way.starts_with("level ") ? 3 : 1);
    expect_close(fast.value, plain.value, allowed, where + " value");
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_close(fast.gradients[i], plain.gradients[i], allowed, where + " gradient " + std::to_string(i));
  });
}

inline void expect_matches(const Op& op, const Op& meaning, const std::vector<Tensor>& inputs) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) expect_matches(op, meaning, inputs, type);
}

struct Threads {
  explicit Threads(int count) : old(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(old); }
  const int old;
};

// Value and gradients, in every type.
inline void expect_same_bits_for_any_threads(const Op& op, const std::vector<Tensor>& inputs) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    std::vector<Tensor> typed;
    for (const Tensor& x : inputs) typed.push_back(x.to(type));
    const auto with = [&](int count) {
      const Threads threads(count);
      return value_and_gradients(op, typed);
    };
    const Result one = with(1);
    for (const int count : {2, 3}) {
      const Result several = with(count);
      EXPECT_TRUE(several.value.equal(one.value)) << count << " threads";
      for (std::size_t i = 0; i < inputs.size(); ++i)
        EXPECT_TRUE(several.gradients[i].equal(one.gradients[i])) << count << " threads, gradient " << i;
    }
  }
}

// Analytic gradients against central differences, in double.
inline void gradcheck(const Op& op, const std::vector<Tensor>& inputs) {
  const Result result = value_and_gradients(op, inputs);
  const Tensor weights = sample(result.value.sizes(), at::kDouble, 99);
  const auto total = [&](const std::vector<Tensor>& at) { return (op(at) * weights).sum().item<double>(); };
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor numeric = at::zeros_like(inputs[i]);
    for (std::int64_t j = 0; j < inputs[i].numel(); ++j) {
      std::vector<Tensor> moved;
      for (const Tensor& x : inputs) moved.push_back(x.clone());
      double* element = moved[i].data_ptr<double>() + j;
      const double start = *element;
      *element = start + kStep;
      const double above = total(moved);
      *element = start - kStep;
      numeric.data_ptr<double>()[j] = (above - total(moved)) / (2 * kStep);
    }
    expect_close(result.gradients[i], numeric, 1e-7, "gradcheck of input " + std::to_string(i));
  }
}

}  // namespace hone::ops::test
