// Whether values are finite, by the device's table.
#include "ops/finite.h"

#include <ATen/ATen.h>

#include "ops/backend.h"
#include "ops/cpu/finite.h"

namespace hone::ops {

bool all_finite(const at::Tensor& x) {
  const Backend* backend = x.numel() == 0 ? nullptr : backend_for({x});
  return (backend ? *backend : reference_backend()).sums.all_finite(x);
}

bool all_finite(std::span<const float> values) {
  return cpu::finite_kernels<float>().all_finite(values.data(), static_cast<std::int64_t>(values.size()));
}

}  // namespace hone::ops
