// Rows that lie side by side by the group that they belong to, as tokens do by their expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace hone::ops {

// Copies share what they know. One thread.
class RowGroups {
 public:
  RowGroups() = default;
  // Rows [begin_G1[g], begin_G1[g + 1]) are group g's: int64, on the rows' device, from 0 to all rows. counts: what the
  // host knows of each group; empty: nothing yet.
  explicit RowGroups(at::Tensor begin_G1, std::vector<std::int64_t> counts = {});

  std::int64_t size() const { return begin_G1_.size(0) - 1; }
  const at::Tensor& begin() const { return begin_G1_; }
  at::Tensor counts() const;  // where the rows are
  // Of each group. Where the host does not know them yet it waits for the device, once.
  const std::vector<std::int64_t>& host_counts() const;
  const std::vector<std::int64_t>& known_counts() const { return *counts_; }  // without waiting: empty, unknown

 private:
  at::Tensor begin_G1_;
  std::shared_ptr<std::vector<std::int64_t>> counts_ = std::make_shared<std::vector<std::int64_t>>();
};

}  // namespace hone::ops
