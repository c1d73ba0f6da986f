// Documents of different lengths.
#pragma once

#include "models/golden.h"

namespace hone::test {

// Three documents, in a row each or in one.
inline Batch three_documents(bool packed, std::int64_t vocab) {
  const std::vector<std::int64_t> lengths{7, 3, 11};
  Batch batch;
  batch.ids_BT = at::zeros(packed ? at::IntArrayRef{1, 21} : at::IntArrayRef{3, 11}, at::kLong);
  batch.labels_BT = at::full_like(batch.ids_BT, -100);
  std::int32_t begin = 0;
  for (std::int32_t i = 0; i < 3; ++i) {
    const auto length = static_cast<std::int32_t>(lengths[i]);
    const std::int32_t row = packed ? 0 : i, end = begin + length;
    const Tensor ids = (at::arange(length, at::kLong) * (5 + i) + i) % vocab;
    batch.ids_BT[row].slice(0, begin, end).copy_(ids);
    batch.labels_BT[row].slice(0, begin, end - 1).copy_(ids.slice(0, 1));
    batch.docs.push_back({.row = row, .begin = begin, .end = end});
    batch.tokens += length, batch.supervised += length - 1;
    begin = packed ? end : 0;
  }
  batch.weight_BT = (batch.labels_BT != -100).to(at::kFloat);
  return batch;
}

}  // namespace hone::test
