// What tests of kernels share: they run on the emulated GPU with warps and blocks in several orders, must have the
// same bits and are compared with the reference's table.
#pragma once

#include <ATen/Context.h>
#include <ATen/OpMathType.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda/emulated_gpu.h"
#include "cuda/emulated_table.h"
#include "ops/check.h"

namespace hone::ops::test {

inline constexpr at::ScalarType kAllTypes[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

// Relative to the largest value. fp64 and fp32: sums of a thousand terms in another order. bf16 and fp16: values are
// rounded in the same places, but what was near the middle may fall to the other side, and be multiplied and rounded
// once more: two of their steps of 2^-8 and 2^-11.
inline double kernel_tolerance(at::ScalarType type) {
  return type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : type == at::kBFloat16 ? 0x1p-7 : 0x1p-10;
}

// Of what is summed in fp32 and rounded once: half a step.
inline double once_rounded(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 2e-6 : type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
}

// The emulated GPU is one of this compute capability and so many multiprocessors, while it lives.
class OfCapability {
 public:
  explicit OfCapability(int capability, int multiprocessors = 1) {
    emulated_capability() = capability;
    emulated_multiprocessors() = multiprocessors;
  }
  ~OfCapability() { emulated_capability() = 0, emulated_multiprocessors() = 1; }
  OfCapability(const OfCapability&) = delete;
};

using Results = std::vector<Tensor>;  // undefined ones are left out
using Primitive = std::function<Results(const Backend& table)>;

inline Tensor bits_of(const Tensor& x) { return x.contiguous().view({-1}).view(at::kByte); }

// What is allocated and never written is not a number there.
class UnwrittenIsNotANumber {
 public:
  UnwrittenIsNotANumber() { at::globalContext().setDeterministicAlgorithms(true, false); }
  ~UnwrittenIsNotANumber() { at::globalContext().setDeterministicAlgorithms(false, false); }
  UnwrittenIsNotANumber(const UnwrittenIsNotANumber&) = delete;
};

// By the emulated GPU; at least one kernel must have run.
inline Results emulated_results(const Primitive& primitive, const std::string& what) {
  const auto run = [&](emulated::Order order) {
    const UnwrittenIsNotANumber scope;
    emulated::order = order;
    return primitive(emulated_backend());
  };
  const std::int64_t before = emulated_launches();
  const Results first = run(emulated::Order::forward);
  EXPECT_GT(emulated_launches(), before) << what;
  for (const auto order : {emulated::Order::backward, emulated::Order::turns}) {
    const Results again = run(order);
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (!first[i].defined()) continue;
      EXPECT_TRUE(bits_of(first[i]).equal(bits_of(again[i]))) << what << ": result " << i << " depends on timing";
    }
  }
  return first;
}

// allowed: per result, relative to its largest value; where there are infinities and what is not a number, they must be
// the same ones.
inline void expect_same(const Tensor& got, const Tensor& expected, double allowed, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  ASSERT_EQ(got.scalar_type(), expected.scalar_type()) << what;
  const Tensor finite = expected.isfinite();
  EXPECT_TRUE(got.isfinite().equal(finite)) << what << ": finite in other places";
  EXPECT_TRUE(got.isnan().equal(expected.isnan())) << what << ": not a number in other places";
  const auto of = [&](const Tensor& x) { return x.masked_fill(finite.logical_not(), 0).to(at::kDouble); };
  expect_close(of(got), of(expected), allowed, what);
}

inline void expect_as_reference(const Primitive& primitive, at::ScalarType type, const std::string& what,
                                double allowed = 0) {
  const Results got = emulated_results(primitive, what), expected = primitive(reference_backend());
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << what << ": result " << i;
    if (got[i].defined())
      expect_same(got[i], expected[i], allowed > 0 ? allowed : kernel_tolerance(type),
                  what + ": result " + std::to_string(i));
  }
}

// The same values where no access of 16 bytes may begin.
inline Tensor misplaced(const Tensor& x) {
  const Tensor room = at::empty({x.numel() + 1}, x.options());
  return room.narrow(0, 1, x.numel()).view(x.sizes()).copy_(x);
}

inline std::string described(at::ScalarType type, std::int64_t rows, std::int64_t columns) {
  return std::string(c10::toString(type)) + " " + std::to_string(rows) + " x " + std::to_string(columns);
}

}  // namespace hone::ops::test
