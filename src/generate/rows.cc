#include "generate/rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tensor/host.h"

namespace hone::generate {

Batch rows_of_ids(const std::vector<std::span<const std::int32_t>>& rows) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  Batch batch;
  batch.ids_BT = at::zeros({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)}, at::kLong);
  const auto ids = host::mutable_values<std::int64_t>(batch.ids_BT).begin();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), ids + r * longest);
    Doc doc;
    doc.row = static_cast<std::int32_t>(r);
    doc.end = static_cast<std::int32_t>(rows[r].size());
    batch.docs.push_back(doc);
    batch.tokens += doc.end;
  }
  return batch;
}

}  // namespace hone::generate
