// Documents of rows.
#include "nn/batch_docs.h"

#include <ATen/ATen.h>

#include "tensor/host.h"

namespace hone::nn {
namespace {

std::vector<Doc> whole_rows(std::int64_t rows, std::int64_t length) {
  std::vector<Doc> docs;
  for (std::int32_t row = 0; row < rows; ++row)
    docs.push_back({.row = row, .begin = 0, .end = static_cast<std::int32_t>(length)});
  return docs;
}

std::vector<Doc> docs_of_segments(const Tensor& segments_BT) {
  const Tensor held = host::read(segments_BT.to(at::kLong));
  const std::int64_t* segment = host::values<std::int64_t>(held).data();
  std::vector<Doc> docs;
  const std::int32_t rows = static_cast<std::int32_t>(held.size(0)), length = static_cast<std::int32_t>(held.size(1));
  for (std::int32_t row = 0; row < rows; ++row, segment += length)
    for (std::int32_t begin = 0, end; begin < length; begin = end) {
      for (end = begin + 1; end < length && segment[end] == segment[begin];) ++end;
      if (segment[begin] != 0) docs.push_back({.row = row, .begin = begin, .end = end});
    }
  return docs;
}

}  // namespace

std::vector<Doc> docs_of(const Batch& batch) {
  if (!batch.docs.empty()) return batch.docs;
  return batch.segments_BT.defined() ? docs_of_segments(batch.segments_BT)
                                     : whole_rows(batch.rows(), batch.length());
}

}  // namespace hone::nn
