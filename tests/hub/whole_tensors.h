// Tensors of files, read whole, and compared to the bit.
#pragma once

#include <ATen/ATen.h>

#include <cstring>

#include "hone/safetensors.h"
#include "tensor/host.h"

namespace hone::test {

inline at::Tensor read_whole(const SafetensorsSet::Place& place, at::ScalarType type) {
  at::Tensor made = at::empty(place.tensor->shape, type);
  place.file->read(*place.tensor, host::mutable_bytes(made));
  return made;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const std::span<const std::byte> x = host::bytes(a), y = host::bytes(b);
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && std::memcmp(x.data(), y.data(), x.size()) == 0;
}

}  // namespace hone::test
