// Rows by groups: what the host knows of them, and when.
#include "ops/row_groups.h"

#include <ATen/ATen.h>

#include <span>
#include <utility>

#include "tensor/host.h"

namespace hone::ops {

RowGroups::RowGroups(at::Tensor begin_G1, std::vector<std::int64_t> counts)
    : begin_G1_(std::move(begin_G1)), counts_(std::make_shared<std::vector<std::int64_t>>(std::move(counts))) {}

at::Tensor RowGroups::counts() const { return begin_G1_.diff(); }

const std::vector<std::int64_t>& RowGroups::host_counts() const {
  if (!counts_->empty() || size() == 0) return *counts_;
  const at::Tensor counts_G = host::read(counts());
  const std::span<const std::int64_t> values = host::values<std::int64_t>(counts_G);
  counts_->assign(values.begin(), values.end());
  return *counts_;
}

}  // namespace hone::ops
