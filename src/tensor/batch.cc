// Host batches to tensors, and batches to devices.
#include "hone/batch.h"

#include <ATen/ATen.h>

#include "hone/error.h"

namespace hone {
namespace {

template <class T>
Tensor tensor_of(const std::vector<T>& values, const HostBatch& host, at::ScalarType type) {
  HONE_ASSERT(static_cast<std::int64_t>(values.size()) == host.rows * host.length);
  Tensor made = at::empty({host.rows, host.length}, type);
  std::copy(values.begin(), values.end(), made.data_ptr<T>());
  return made;
}

Tensor numbers_of(const std::vector<std::int64_t>& values, std::size_t documents) {
  HONE_ASSERT(values.size() == documents);
  Tensor made = at::empty({static_cast<std::int64_t>(documents)}, at::kLong);
  std::copy(values.begin(), values.end(), made.data_ptr<std::int64_t>());
  return made;
}

}  // namespace

Batch to_batch(const HostBatch& host) {
  Batch batch;
  batch.ids_BT = tensor_of(host.ids, host, at::kLong);
  batch.labels_BT = tensor_of(host.labels, host, at::kLong);
  batch.weight_BT = tensor_of(host.weight, host, at::kFloat);
  batch.segments_BT = tensor_of(host.segments, host, at::kLong);
  batch.positions_BT = tensor_of(host.positions, host, at::kLong);
  for (const auto& [name, column] : host.extra)
    batch.extra[name] = column.per == HostColumn::Per::token ? tensor_of(column.values, host, at::kLong)
                                                             : numbers_of(column.values, host.docs.size());
  batch.docs = host.docs;
  batch.tokens = host.tokens;
  batch.supervised = host.supervised;
  return batch;
}

Batch Batch::to(at::Device device) const {
  Batch moved = *this;
  for (Tensor* x : {&moved.ids_BT, &moved.labels_BT, &moved.weight_BT, &moved.segments_BT, &moved.positions_BT})
    if (x->defined()) *x = x->to(device, /*non_blocking=*/true);
  for (auto& [name, value] : moved.extra) value = value.to(device, /*non_blocking=*/true);
  return moved;
}

}  // namespace hone
