// Tensors of a checkpoint by name: on their way into a safetensors file, and found in one.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "hone/safetensors.h"
#include "io/safetensors_writer.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::training {

// Contiguous CPU tensors by name, handed to a writer.
class NamedTensors {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor plain = host::read(tensor);
    specs_.push_back({name, safetensors_name(plain.scalar_type()), plain.sizes().vec()});
    tensors_[name] = plain;
  }
  // From then on they are its own.
  void copy() {
    for (auto& [name, tensor] : tensors_) tensor = tensor.clone();
  }
  const std::vector<io::TensorSpec>& specs() const { return specs_; }
  io::TensorBytes bytes() const {
    return [this](const io::TensorSpec& spec) { return host::bytes(tensors_.at(spec.name)); };
  }

 private:
  std::vector<io::TensorSpec> specs_;
  std::map<std::string, at::Tensor> tensors_;
};

// Error(checkpoint): there is none of that name.
inline const TensorInfo& info_of(const Safetensors& file, const std::string& name) {
  if (const TensorInfo* found = file.find(name)) return *found;
  throw Error(ErrorKind::checkpoint, file.path().string() + ": " + name + ": missing");
}

}  // namespace hone::training
