// Activations of vision towers.
#include "models/quick_gelu.h"

#include <ATen/ATen.h>

#include "hone/layers.h"

namespace hone::models {
namespace {

constexpr const char* kQuick = "quick_gelu";

}  // namespace

Activated::Activated(const std::string& name, const std::string& path, Problems& problems)
    : quick_(name == kQuick), other_(quick_ ? ops::Activation::gelu : nn::read_activation(name, path, problems)) {}

Activated::Activated(const std::string& name)
    : quick_(name == kQuick), other_(quick_ ? ops::Activation::gelu : nn::read_activation(name)) {}

at::Tensor Activated::operator()(const at::Tensor& x) const {
  return quick_ ? x * (1.702 * x).sigmoid() : nn::activate(x, other_);
}

}  // namespace hone::models
