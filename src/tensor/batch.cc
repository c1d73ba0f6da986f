// Host batches to tensors, and batches to devices.
#include "hone/batch.h"

#include <ATen/ATen.h>

#include "hone/error.h"
#include "tensor/host.h"

namespace hone {
namespace {

template <class T>
Tensor tensor_of(const std::vector<T>& values, const HostBatch& batch) {
  return host::tensor_of(values, {batch.rows, batch.length});
}

Tensor numbers_of(const std::vector<std::int64_t>& values, std::size_t documents) {
  return host::tensor_of(values, {static_cast<std::int64_t>(documents)});
}

}  // namespace

Batch to_batch(const HostBatch& host) {
  Batch batch;
  batch.ids_BT = tensor_of(host.ids, host);
  batch.labels_BT = tensor_of(host.labels, host);
  batch.weight_BT = tensor_of(host.weight, host);
  batch.segments_BT = tensor_of(host.segments, host);
  batch.positions_BT = tensor_of(host.positions, host);
  for (const auto& [name, column] : host.extra)
    batch.extra[name] = column.per == HostColumn::Per::token ? tensor_of(column.values, host)
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
