// Tensors of a checkpoint by name: on their way into a safetensors file, and found in one.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
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
  // Made when it is written.
  void add(const std::string& name, at::ScalarType type, const std::vector<std::int64_t>& shape,
           std::function<at::Tensor()> make) {
    specs_.push_back({name, safetensors_name(type), shape});
    made_[name] = std::move(make);
  }
  const std::vector<io::TensorSpec>& specs() const { return specs_; }
  io::TensorBytes bytes() const {
    return [this, held = at::Tensor()](const io::TensorSpec& spec) mutable {
      const auto made = made_.find(spec.name);
      return host::bytes(held = made == made_.end() ? tensors_.at(spec.name) : host::read(made->second()));
    };
  }

 private:
  std::vector<io::TensorSpec> specs_;
  std::map<std::string, at::Tensor> tensors_;
  std::map<std::string, std::function<at::Tensor()>> made_;
};

// Error(checkpoint): there is none of that name.
inline const TensorInfo& info_of(const Safetensors& file, const std::string& name) {
  if (const TensorInfo* found = file.find(name)) return *found;
  throw Error(ErrorKind::checkpoint, file.path().string() + ": " + name + ": missing");
}

}  // namespace hone::training
