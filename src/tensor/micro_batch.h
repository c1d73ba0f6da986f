// Which micro-batch of an update one is, over all ranks: what it draws follows from its number.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hone/batch.h"
#include "tensor/host.h"

namespace hone {

inline constexpr const char* kMicroBatch = "micro_batch";  // in Batch::extra, a number on the host

// Where its place among its rank's own does not say it.
inline void set_micro_batch(Batch& batch, std::int64_t number) {
  batch.extra[kMicroBatch] = host::tensor_of(std::vector<std::int64_t>{number}, {});
}
inline std::optional<std::int64_t> micro_batch_of(const Batch& batch) {
  const auto found = batch.extra.find(kMicroBatch);
  return found == batch.extra.end() ? std::nullopt : std::optional(host::values<std::int64_t>(found->second)[0]);
}

}  // namespace hone
