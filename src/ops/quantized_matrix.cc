// What a matrix in fewer bits takes, and where it is.
#include "ops/quantized_matrix.h"

#include <ATen/ATen.h>

namespace hone::ops {

std::int64_t Quantized::numel() const { return shape[0] * shape[1]; }

std::uint64_t Quantized::bytes() const {
  std::uint64_t sum = 0;
  for (const at::Tensor* part : {&codes, &scales, &scale_codes})
    if (part->defined()) sum += part->nbytes();
  return sum;
}

std::shared_ptr<const Quantized> Quantized::on(at::Device device) const {
  auto moved = std::make_shared<Quantized>(*this);
  for (at::Tensor* part : {&moved->codes, &moved->table, &moved->scales, &moved->scale_codes, &moved->scale_table})
    if (part->defined()) *part = part->to(device);
  return moved;
}

}  // namespace hone::ops
