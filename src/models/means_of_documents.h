// The mean of what a document's tokens have.
//
// Letters in tensor names: B batch, T time, N tokens, D hidden, S documents.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "hone/model.h"
#include "nn/plan.h"

namespace hone::models {

inline at::Tensor means_of_documents(const at::Tensor& x_BTD, Pass& pass) {
  const at::Tensor flat_ND = pass.plan().to_flat(x_BTD).squeeze(0);
  std::vector<std::int64_t> lengths;  // of documents, and of what lies between them
  std::int64_t end = 0;
  for (const ops::Span& span : pass.plan().documents().spans()) {
    lengths.push_back(span.begin - end), lengths.push_back(span.end - span.begin);
    end = span.end;
  }
  lengths.push_back(flat_ND.size(0) - end);
  const std::vector<at::Tensor> parts = flat_ND.split_with_sizes(lengths);  // whose gradient is one tensor
  std::vector<at::Tensor> means;
  for (std::size_t i = 1; i < parts.size(); i += 2) means.push_back(parts[i].mean(0));
  return at::stack(means);
}

}  // namespace hone::models
