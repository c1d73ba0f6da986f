// Documents of alike lengths, which are computed together.
//
// Letters: N tokens, H heads, K head size, B documents of a batch, L tokens of its longest one, X places of a batch, Y
// those that have a token.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hone/op_options.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::ops {

inline constexpr std::int64_t kMostScores = std::int64_t{1} << 24;  // of a batch of several documents

// Documents that are computed together.
struct AlikeDocuments {
  std::vector<Span> spans;
  std::int64_t longest = 0;
};

// By their lengths: none is shorter than 7/8 of the longest one that it is with.
inline std::vector<AlikeDocuments> alike(const std::vector<Span>& all, std::int64_t heads) {
  std::vector<Span> spans;
  for (const Span& span : all)
    if (span.end > span.begin) spans.push_back(span);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.end - a.begin > b.end - b.begin; });
  std::vector<AlikeDocuments> made;
  for (const Span& span : spans) {
    const std::int64_t length = span.end - span.begin;
    const bool fits =
        !made.empty() && 8 * length >= 7 * made.back().longest &&
        (std::ssize(made.back().spans) + 1) * heads * made.back().longest * made.back().longest <= kMostScores;
    if (!fits) made.push_back({{}, length});
    made.back().spans.push_back(span);
  }
  return made;
}

// Where the tokens of a batch lie.
struct Places {
  Places(const AlikeDocuments& docs, at::Device device)
      : documents(std::ssize(docs.spans)), length(docs.longest), first(docs.spans[0].begin) {
    std::vector<std::int64_t> rows, held, hidden;
    for (const Span& span : docs.spans)
      for (std::int64_t i = 0; i < length; ++i) {
        const bool is_there = span.begin + i < span.end;
        if (is_there) held.push_back(std::ssize(rows));
        hidden.push_back(!is_there);
        rows.push_back(is_there ? span.begin + i : span.begin);
      }
    const auto sent = [&](const std::vector<std::int64_t>& values) {
      return devices::sent(host::tensor_of(values, {std::ssize(values)}), device);
    };
    rows_X = sent(rows);
    if (held.size() == rows.size()) return;
    held_Y = sent(held);
    own_Y = rows_X.index_select(0, held_Y);
    hidden_BL = sent(hidden).to(at::kBool).view({documents, length});
  }
  std::int64_t documents, length, first;  // first: token of the first document
  at::Tensor rows_X;                      // of the flat axis, for each place of the batch
  at::Tensor held_Y, own_Y;               // which places have a token, and its row; undefined: all have
  at::Tensor hidden_BL;                   // which have none

  // [N,H,K] -> [H,B,L,K]
  at::Tensor gathered(const at::Tensor& x_NHK) const {
    return x_NHK.index_select(0, rows_X).unflatten(0, {documents, length}).permute({2, 0, 1, 3}).contiguous();
  }
  // The same, with zeros where there is no token.
  at::Tensor gathered_gradient(const at::Tensor& x_NHK) const {
    at::Tensor x_HBLK = gathered(x_NHK);
    return hidden_BL.defined() ? x_HBLK.masked_fill_(hidden_BL.unsqueeze(0).unsqueeze(-1), 0) : x_HBLK;
  }
  void scatter(const at::Tensor& x_HBLK, at::Tensor& to_NHK) const {
    const at::Tensor x_XHK = x_HBLK.permute({1, 2, 0, 3}).flatten(0, 1);
    if (held_Y.defined())
      to_NHK.index_copy_(0, own_Y, x_XHK.index_select(0, held_Y));
    else
      to_NHK.index_copy_(0, rows_X, x_XHK);
  }
};

}  // namespace hone::ops
