// Documents cut into chunks, which memories in plain ATen compute all at once.
//
// Letters: C chunks, H heads, L tokens of a chunk.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/documents.h"
#include "ops/reference/table.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops::reference_table {

inline constexpr std::int64_t kChunk = 64;  // tokens

// Documents in chunks. Those of one place lie one behind another, the longest documents first: who reaches a place is a
// stretch of those that reached the one before it, from its begin.
class ChunkedDocuments {
 public:
  ChunkedDocuments(const std::vector<Span>& spans, at::Device device) : device_(device) {
    for (std::size_t d = 0; d < spans.size(); ++d)
      if (spans[d].end > spans[d].begin) documents.push_back(static_cast<std::int64_t>(d));
    const auto tokens_of = [&](std::int64_t d) { return spans[d].end - spans[d].begin; };
    for (const std::int64_t d : documents) length = std::max(length, std::min(kChunk, tokens_of(d)));
    std::ranges::stable_sort(documents, [&](auto a, auto b) { return tokens_of(a) > tokens_of(b); });
    std::vector<std::int64_t> tokens, places, kept;
    for (std::int64_t place = 0;; ++place) {
      const auto reach = [&](std::int64_t d) { return tokens_of(d) > place * length; };
      const std::int64_t count = std::ranges::count_if(documents, reach);
      if (count == 0) break;
      begins.push_back(chunks);
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t t = 0; t < length; ++t) {
          const std::int64_t token = spans[documents[i]].begin + place * length + t;
          const bool there = token < spans[documents[i]].end;
          if (there) kept.push_back(token), places.push_back(std::ssize(tokens));
          tokens.push_back(there ? token : -1);
        }
      chunks += count;
    }
    begins.push_back(chunks);
    is_any_short_ = kept.size() < tokens.size();
    token_ = on_device(tokens), kept_ = on_device(kept), place_of_kept_ = on_device(places);
    if (is_any_short_) none_CL_ = (token_ < 0).view({chunks, length}), token_ = token_.clamp_min(0);
  }

  at::Tensor on_device(const std::vector<std::int64_t>& numbers) const {
    return devices::sent(host::tensor_of(numbers, {std::ssize(numbers)}), device_);
  }
  std::int64_t places() const { return std::ssize(begins) - 1; }
  std::int64_t reached(std::int64_t place) const {  // by so many documents
    return place < places() ? begins[place + 1] - begins[place] : 0;
  }
  // The chunks at a place, of its first `count` documents (-1: all).
  at::Tensor at(const at::Tensor& x_C, std::int64_t place, std::int64_t count = -1) const {
    return x_C.narrow(0, begins[place], count < 0 ? reached(place) : count);
  }

  // [N,H,...] -> [C,H,L,...], in fp32 at least, with `fill` where there is no token.
  at::Tensor in_chunks(const at::Tensor& x, double fill = 0) const {
    const at::Tensor y = widened(x).index_select(0, token_).unflatten(0, {chunks, length}).transpose(1, 2);
    if (!is_any_short_) return y;
    const at::Tensor none_C1L = none_CL_.unsqueeze(1);
    return y.masked_fill(y.dim() == 4 ? none_C1L.unsqueeze(-1) : none_C1L, fill);
  }
  // And back; tokens of no document are 0.
  at::Tensor in_tokens(const at::Tensor& x, const at::Tensor& like) const {
    const at::Tensor rows = x.transpose(1, 2).flatten(0, 1).to(like.scalar_type());
    const at::Tensor y = at::zeros_like(like, at::MemoryFormat::Contiguous);
    return y.index_copy_(0, kept_, is_any_short_ ? rows.index_select(0, place_of_kept_) : rows);
  }

  std::int64_t chunks = 0, length = 1;
  std::vector<std::int64_t> documents;  // that have tokens, the longest first
  std::vector<std::int64_t> begins;     // of each place's chunks, and the end of the last one's

 private:
  at::Device device_;
  at::Tensor token_, none_CL_, kept_, place_of_kept_;
  bool is_any_short_ = false;
};

// The same object for all layers of a pass.
inline const ChunkedDocuments& cut_of(const Documents& documents, const at::Tensor& x) {
  return documents.kept([&] { return ChunkedDocuments(documents.spans(), x.device()); });
}

}  // namespace hone::ops::reference_table
