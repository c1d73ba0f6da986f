// Tensors of heads as kernels take them, and room for their work.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hone/op_options.h"
#include "ops/cpu/products/head_rows.h"

namespace hone::ops::cpu_table {

// Memory where tensors have theirs, aligned to 64 bytes.
class WorkRoom {
 public:
  WorkRoom() = default;
  explicit WorkRoom(std::int64_t bytes) : memory_(c10::GetCPUAllocator()->allocate(static_cast<std::size_t>(bytes))) {}
  char* at(std::int64_t byte = 0) const { return static_cast<char*>(memory_.get()) + byte; }

 private:
  at::DataPtr memory_;
};

// A tensor [tokens, heads, K] or [heads, tokens, K] (`tokens`: which dimension they are).
template <class T>
struct Heads {
  Heads(const at::Tensor& x, int tokens)
      : data(const_cast<T*>(x.const_data_ptr<T>())), token(x.stride(tokens)), head(x.stride(1 - tokens)) {}
  cpu::HeadRows<T> rows(std::int64_t which, std::int64_t first) const {
    return {data + which * head + first * token, token};
  }
  cpu::HeadRows<const T> read(std::int64_t which, std::int64_t first) const {
    return {data + which * head + first * token, token};
  }
  T* data;
  std::int64_t token, head;
};

// Whether every token is in a document.
inline bool covers_all(const std::vector<Span>& spans, std::int64_t tokens) {
  std::int64_t covered = 0;
  for (const Span& span : spans) covered += std::max<std::int64_t>(0, span.end - span.begin);
  return covered == tokens;
}
// Room for a result; where documents leave tokens out, these are 0.
inline at::Tensor made_like(const at::Tensor& x, bool covered) {
  return covered ? at::empty(x.sizes(), x.options()) : at::zeros(x.sizes(), x.options());
}

}  // namespace hone::ops::cpu_table
