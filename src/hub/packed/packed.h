// Weights that several tensors of a folder hold together in few bits, read in full.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "hone/module.h"
#include "hub/places.h"

namespace hone::hub {

// One of them. The files must outlive it.
class Packed {
 public:
  virtual ~Packed() = default;
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  // All of it as one tensor of the codes' file, as long as what it takes there, and of a dtype ("FP8") that no file's
  // read() can give. Valid as long as this is.
  SafetensorsSet::Place whole() const { return {parts_.front().file, &whole_}; }
  const std::vector<SafetensorsSet::Place>& parts() const { return parts_; }  // the codes first
  const std::string& method() const { return method_; }                       // "fp8"
  // safetensors' names of two types: the narrowest that holds its numbers as they are, and the one that models of its
  // folder are saved in.
  const std::string& exact_in() const { return exact_in_; }
  const std::string& saved_in() const { return saved_in_; }

  // Each number is computed in fp32 and rounded to `type` once. Error(checkpoint): one is infinite, or no number.
  at::Tensor read(at::ScalarType type) const { return read_some(0, whole_.shape[0], type); }
  // What a weight's layout says of it. Error(checkpoint): the weight is of another shape.
  at::Tensor read(const Weight& weight, at::ScalarType type) const;
  // Rows of a weight of two dimensions, or of one expert after another, as a weight of its own.
  // REQUIRES: can_be_split(), and rows of one expert.
  virtual bool can_be_split() const { return false; }
  virtual std::shared_ptr<const Packed> rows(std::string name, std::int64_t first, std::int64_t count) const;

 protected:
  Packed(std::string method, std::vector<SafetensorsSet::Place> parts)
      : parts_(std::move(parts)), method_(std::move(method)) {}
  // Of the first dimension.
  virtual at::Tensor read_some(std::int64_t first, std::int64_t last, at::ScalarType type) const = 0;
  std::vector<SafetensorsSet::Place> parts_;
  TensorInfo whole_;
  std::string method_, exact_in_, saved_in_;
};

// Those of a folder.
struct PackedWeights {
  std::vector<std::shared_ptr<const Packed>> weights;
  std::vector<std::string> passed_over;  // tensors that say nothing of weights, as scales of what is computed
  std::vector<SafetensorsSet::Place> zero_biases = {};  // which some versions write of modules that have none
};

// The error of a tensor.
Error unfit(const SafetensorsSet::Place& place, const std::string& fact);

}  // namespace hone::hub
