// Whether values are finite: the choice of kernel.
#include "ops/finite.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>

#include "ops/cpu/finite.h"
#include "ops/kernels.h"

namespace hone::ops {

bool all_finite(const at::Tensor& x) {
  if (!kernels_take({x}) || !x.is_contiguous()) return at::isfinite(x).all().item<bool>();
  std::atomic<bool> finite = true;
  cpu::with_type(x.scalar_type(), [&]<class T>(T) {
    const T* values = x.const_data_ptr<T>();
    at::parallel_for(0, x.numel(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      if (!cpu::finite_kernels<T>().all_finite(values + begin, end - begin)) finite = false;
    });
  });
  return finite;
}

bool all_finite(std::span<const float> values) {
  return cpu::finite_kernels<float>().all_finite(values.data(), static_cast<std::int64_t>(values.size()));
}

}  // namespace hone::ops
