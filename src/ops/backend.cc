// Which device's primitives the ops use.
#include "ops/backend.h"

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>

#include "ops/devices.h"
#include "ops/kernels.h"

namespace hone::ops {
namespace {

const Backend* selected = nullptr;

}  // namespace

// Those without a file of their own have the reference's.
const Backend& table_of(at::DeviceType device) {
  static const auto tables = [] {
    std::array<const Backend*, at::COMPILE_TIME_MAX_DEVICE_TYPES> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto type = static_cast<at::DeviceType>(i);
      const Backend* own = c10::isValidDeviceType(type) ? device_backend(c10::DeviceTypeName(type, true)) : nullptr;
      all[i] = own ? own : &reference_backend();
    }
    all[static_cast<std::size_t>(at::kCPU)] = &cpu_backend();
    return all;
  }();
  return *tables[static_cast<std::size_t>(device)];
}

const Backend& backend_of(const at::Tensor& x) {
  if (selected) return *selected;
  const Backend& table = table_of(x.device().type());
  return table.takes(x.scalar_type()) ? table : reference_backend();
}

const Backend* backend_for(std::initializer_list<at::Tensor> tensors) {
  if (!use_kernels()) return nullptr;
  const at::Tensor& first = *tensors.begin();
  for (const at::Tensor& x : tensors)
    if (x.scalar_type() != first.scalar_type() || x.device() != first.device() || x.layout() != at::kStrided)
      return nullptr;
  return reference_backend().takes(first.scalar_type()) ? &backend_of(first) : nullptr;
}

BackendScope::BackendScope(const Backend& backend) : old_(selected) { selected = &backend; }
BackendScope::~BackendScope() { selected = old_; }

}  // namespace hone::ops
