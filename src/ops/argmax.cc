// The place of the largest value: the choice of kernel.
#include "ops/argmax.h"

#include "hone/error.h"
#include "ops/cpu/argmax.h"

namespace hone::ops {

std::int64_t argmax(std::span<const float> values) {
  HONE_ASSERT(!values.empty());
  return cpu::argmax_kernels<float>().find(values.data(), static_cast<std::int64_t>(values.size()));
}

}  // namespace hone::ops
