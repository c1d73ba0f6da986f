// What ranks of a group send each other within a pass.
#include "parallel/world_peers.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <vector>

namespace hone::parallel {

Tensor WorldPeers::exchange(const Tensor& parts) const {
  const c10::NoGradGuard no_grad;
  Tensor got = at::empty_like(parts);
  if (parts.numel() > 0) group_.begin_all_to_all(parts.view(-1), got.view(-1))->wait();
  return got;
}

Tensor WorldPeers::gather(const Tensor& own) const {
  const c10::NoGradGuard no_grad;
  std::vector<std::int64_t> sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), size());
  const Tensor got = at::empty(sizes, own.options().requires_grad(false));
  if (own.numel() > 0) group_.begin_gather(own.detach().view(-1), got.view(-1))->wait();
  return got;
}

}  // namespace hone::parallel
