// The token that stands for its document: [CLS], <s>.
//
// Letters in tensor names: N tokens, D hidden, S documents.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "hone/op_options.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::models {

inline at::Tensor first_tokens(const at::Tensor& x_ND, const std::vector<ops::Span>& spans) {
  std::vector<std::int64_t> first;
  for (const ops::Span& span : spans) first.push_back(span.begin);
  return x_ND.index_select(0, devices::sent(host::tensor_of(first, {std::ssize(first)}), x_ND.device()));
}

}  // namespace hone::models
