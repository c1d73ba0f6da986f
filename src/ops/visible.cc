#include "ops/visible.h"

#include <ATen/ATen.h>

namespace hone::ops::reference {

at::Tensor visible(std::int64_t queries, std::int64_t keys, const Mask& mask, at::Device device) {
  const at::Tensor all = at::arange(keys, at::TensorOptions(device).dtype(at::kLong));
  const at::Tensor behind = all.slice(0, keys - queries).unsqueeze(1) - all.unsqueeze(0);  // how far the key is
  const at::Tensor near = mask.window > 0 ? behind.abs() < mask.window : at::ones_like(behind, at::kBool);
  return mask.kind == Mask::Kind::causal ? near.logical_and(behind >= 0) : near;
}

}  // namespace hone::ops::reference
