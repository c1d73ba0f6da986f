// Tensors on their way into a safetensors file.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"
#include "tensor/dtype.h"

namespace hone::training {

// Contiguous CPU tensors by name, handed to a writer.
class NamedTensors {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor plain = tensor.detach().to(at::kCPU).contiguous();
    specs_.push_back({name, safetensors_name(plain.scalar_type()), plain.sizes().vec()});
    tensors_[name] = plain;
  }
  const std::vector<io::TensorSpec>& specs() const { return specs_; }
  io::TensorBytes bytes() const {
    return [this](const io::TensorSpec& spec) {
      const at::Tensor& tensor = tensors_.at(spec.name);
      return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    };
  }

 private:
  std::vector<io::TensorSpec> specs_;
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace hone::training
