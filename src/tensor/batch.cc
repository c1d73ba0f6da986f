// Host batches to tensors, and batches to devices.
#include "hone/batch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "hone/error.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/pictures.h"

namespace hone {
namespace {

template <class T>
Tensor tensor_of(const std::vector<T>& values, const HostBatch& batch) {
  return host::tensor_of(values, {batch.rows, batch.length});
}

Tensor column_of(const HostColumn& column, const HostBatch& batch) {
  if (column.per == HostColumn::Per::token) return tensor_of(column.values, batch);
  if (column.width == 0) return host::tensor_of(column.values, {std::ssize(batch.docs)});
  return host::tensor_of(column.numbers, {std::ssize(batch.docs), column.width});
}

bool go_together(const Doc& first, const Doc& doc) {
  // Texts to embed, and sources, are read whole.
  const bool answers = doc.role != Role::none && first.role != Role::query && first.role != Role::source;
  return answers && doc.row == first.row && doc.group == first.group;
}

std::int32_t shared_start(const HostBatch& host, const Doc& before, const Doc& doc) {
  const auto at = [&](const std::vector<std::int64_t>& values, const Doc& of) {
    return values.data() + of.row * host.length + of.begin;
  };
  const std::int32_t most = std::min(before.end - before.begin, doc.end - doc.begin) - 1;
  std::int32_t same = 0;
  while (same < most && at(host.ids, before)[same] == at(host.ids, doc)[same] &&
         at(host.labels, before)[same] == -100 && at(host.labels, doc)[same] == -100)
    ++same;
  return same;
}

}  // namespace

Pictures to_pictures(const HostPictures& host) {
  if (host.spans.empty()) return {};
  return {host.spans, host::tensor_of(host.values, {std::ssize(host.values) / host.width, host.width})};
}

Batch to_batch(const HostBatch& host) {
  Batch batch;
  batch.ids_BT = tensor_of(host.ids, host);
  batch.labels_BT = tensor_of(host.labels, host);
  batch.weight_BT = tensor_of(host.weight, host);
  batch.segments_BT = tensor_of(host.segments, host);
  batch.positions_BT = tensor_of(host.positions, host);
  for (const auto& [name, column] : host.extra) batch.extra[name] = column_of(column, host);
  if (const std::int64_t width = host.taught.width; width > 0) {
    batch.extra["taught_ids"] = host::tensor_of(host.taught.ids, {host.rows, host.length, width});
    batch.extra["taught_log_probs"] = host::tensor_of(host.taught.log_probs, {host.rows, host.length, width});
  }
  batch.docs = host.docs;
  batch.pictures = to_pictures(host.pictures);
  std::size_t first = 0;  // of the group
  for (std::size_t i = 1; i < batch.docs.size(); ++i)
    if (go_together(batch.docs[first], batch.docs[i]))
      batch.docs[i].shared = shared_start(host, batch.docs[first], batch.docs[i]);
    else
      first = i;
  batch.tokens = host.tokens;
  batch.supervised = host.supervised;
  return batch;
}

Batch Batch::to(at::Device device) const {
  Batch moved = *this;
  std::vector<Tensor*> places{&moved.ids_BT, &moved.labels_BT, &moved.weight_BT, &moved.segments_BT,
                              &moved.positions_BT};
  for (auto& [name, value] : moved.extra) places.push_back(&value);
  if (moved.pictures.patches_PV.defined()) places.push_back(&moved.pictures.patches_PV);
  std::vector<Tensor> tensors;
  for (const Tensor* place : places) tensors.push_back(*place);
  tensors = devices::copied(tensors, device);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = tensors[i];
  return moved;
}

}  // namespace hone
