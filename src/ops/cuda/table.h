// CUDA's table: kernels of ours, what LibTorch does best, and the reference's for what is left.
#pragma once

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "ops/backend.h"
#include "ops/cuda/program.h"
#include "tensor/device.h"

namespace hone::ops::cuda_table {

Backend::Products products();
Backend::Attention attention();
Backend::Norms norms();
Backend::Elementwise elementwise();
Backend::Sums sums();
Backend::Routed routed();
Backend::Updates updates();
std::unique_ptr<Recording> make_recording();

// Of attention().
at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options);
void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs);
void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R);

at::Tensor decode_new_tokens(const NewTokens& tokens, const CacheRoom& room, const at::Tensor& held_R,
                             const AttentionOptions& options);

// Of routed().
RoutedChoice choose_experts(const at::Tensor& logits_NE, const ChoiceOptions& options);
at::Tensor choose_experts_backward(const RoutedChoice& made, const ChoiceOptions& options,
                                   const at::Tensor& dweight_NK, const at::Tensor& dsum_E, at::ScalarType type);
at::Tensor measure_spread(const at::Tensor& begin_E1, double weight);

// Of products(): false where no kernel of ours takes such tensors on such a GPU.
bool multiply_groups(at::Tensor& out_SN, const std::vector<GroupedFactors>& factors, const RowGroups& groups);
bool multiply_over_groups(const at::Tensor& a_SM, const at::Tensor& b_SN, const RowGroups& groups,
                          const std::vector<Target>& to_MN);

Float8Matrix cast_to_float8(const at::Tensor& x_RC, const Float8Format& format, bool turned);
void float8_products(at::Tensor& out_MN, const std::vector<Float8Factors>& factors, bool add, bool fast);

// Tensor cores that read their factors in a block's room themselves, as kernels/cores.h has it: of GPUs of 9.0 alone.
inline bool cores_read_themselves(const at::Tensor& x) { return capability(x) == 90; }

inline at::TensorOptions wide_options(const at::Tensor& x) {
  return x.options().dtype(at::toOpMathType(x.scalar_type()));
}

// As many rows as products of few rows take: above, cuBLAS reads weights as fast, and has tensor cores. The norm that
// those make on the way has the bits of norms() for so many.
inline constexpr std::int64_t kFewRows = 8;

inline constexpr std::int64_t kAccessBytes = 16;  // the most that a thread reads or writes at once

// Whether every `row` values a new access may begin: all the rows of kernels that go by `wide`.
inline bool wide_rows(std::int64_t row, std::initializer_list<at::Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& x) {
    return !x.defined() || (reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kAccessBytes == 0 &&
                            row * static_cast<std::int64_t>(x.element_size()) % kAccessBytes == 0);
  });
}

// Values of a row that a thread takes at once.
inline std::int64_t values_at_once(const at::Tensor& x, bool wide) {
  return wide ? kAccessBytes / static_cast<std::int64_t>(x.element_size()) : 1;
}

// So that each thread of a block has something to do, in whole warps.
inline int threads_for(std::int64_t accesses, int most) {
  int threads = 32;
  while (threads < most && threads < accesses) threads *= 2;
  return threads;
}

inline std::int64_t ceil_div(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// A thread per access, up to so many that each takes several, one after another.
inline constexpr int kElementThreads = 256;
inline Grid over_all(std::int64_t accesses) {
  constexpr std::int64_t kMostBlocks = 1 << 12;
  const std::int64_t blocks = ceil_div(accesses, kElementThreads);
  return {.x = std::clamp<std::int64_t>(blocks, 1, kMostBlocks), .threads = kElementThreads};
}

// Host values on x's device, sent as devices::sent() does.
template <class T>
at::Tensor queued_copy(const std::vector<T>& values, at::ScalarType type, const at::Tensor& x) {
  const at::Tensor host = at::empty({static_cast<std::int64_t>(values.size())}, type);
  std::memcpy(host.mutable_data_ptr(), values.data(), values.size() * sizeof(T));
  return devices::sent(host, x.device());
}

}  // namespace hone::ops::cuda_table
