// The token of each document that alone has seen all of it.
//
// Letters in tensor names: B batch, T time, D hidden, S documents.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "hone/batch.h"
#include "hone/error.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {

inline at::Tensor last_tokens(const at::Tensor& x_BTD, const Batch& batch) {
  HONE_ASSERT(!batch.docs.empty());
  std::vector<std::int64_t> last;
  for (const Doc& doc : batch.docs) last.push_back(doc.row * batch.length() + doc.end - 1);
  const at::Tensor flat_ND = x_BTD.flatten(0, 1);
  return flat_ND.index_select(0, devices::sent(host::tensor_of(last, {std::ssize(last)}), flat_ND.device()));
}

}  // namespace hone::models
