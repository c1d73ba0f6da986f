// A model's weights in full, one after the other, by the names that the model has for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>

#include "hone/model.h"

namespace hone::gguf {

class FullWeights {
 public:
  virtual ~FullWeights() = default;
  virtual at::Tensor read(const std::string& name) const = 0;  // as stored, or what fewer bits stand for
  virtual std::string where() const = 0;                       // for errors
  virtual at::ScalarType stored() const = 0;                   // of most: fp32, bf16 or fp16
};
// Of a folder, read from its files when they are asked for: `model` is not filled. Error(checkpoint): the folder's
// tensors are not the model's weights.
std::unique_ptr<FullWeights> weights_in(const std::filesystem::path& folder, Model& model);
// Of a model that is filled. It must outlive the result.
std::unique_ptr<FullWeights> weights_of(const Model& model);

}  // namespace hone::gguf
