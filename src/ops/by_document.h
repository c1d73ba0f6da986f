// What composed meanings make of documents, one after another.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

// What run(number, span) makes of each document that has tokens, as rows behind one another; where there is no
// document, zeros as `like` has its rows.
template <class Run>
at::Tensor by_document(const at::Tensor& like, const std::vector<Span>& spans, Run&& run) {
  std::vector<at::Tensor> parts;
  std::int64_t done = 0;
  const auto pad_to = [&](std::int64_t end) {
    if (end > done) parts.push_back(at::zeros_like(like.slice(0, done, end)));
    done = end;
  };
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].end <= spans[i].begin) continue;
    pad_to(spans[i].begin);
    parts.push_back(run(i, spans[i]));
    done = spans[i].end;
  }
  pad_to(like.size(0));
  return parts.empty() ? at::zeros_like(like) : at::cat(parts);
}

}  // namespace hone::ops
