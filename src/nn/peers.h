// Ranks that compute one batch together, as a pass sees them.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::nn {

using at::Tensor;

class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Of parts [size(), ...], contiguous and of one shape on all ranks, one for each rank: what each has for this one, in
  // rank order. By all of them, in the same order. Without a graph.
  virtual Tensor exchange(const Tensor& parts) const = 0;
  // Of a contiguous tensor of one shape on all ranks: [size(), ...], what each has, in rank order. Likewise.
  virtual Tensor gather(const Tensor& own) const = 0;
};

}  // namespace hone::nn
