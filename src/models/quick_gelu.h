// Activations of vision towers: those of all models, and CLIP's quick_gelu, x sigmoid(1.702 x).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "hone/config.h"
#include "hone/op_options.h"

namespace hone::models {

class Activated {
 public:
  // Of config.json's name; another is a problem at `path`.
  Activated(const std::string& name, const std::string& path, Problems& problems);
  explicit Activated(const std::string& name);  // throws Error(config)
  at::Tensor operator()(const at::Tensor& x) const;

 private:
  bool quick_;
  ops::Activation other_;
};

}  // namespace hone::models
