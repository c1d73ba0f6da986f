// Experts' weights in MXFP4 (Open Compute Project, Microscaling Formats 1.0), as gpt-oss is published: numbers of four
// bits, 32 of a row with one power of two, in two tensors.
//
//   X_blocks U8 [E, O, I/32, 16]   two numbers in a byte, the first one in its low half
//   X_scales U8 [E, O, I/32]       the power's exponent + 127
//
// They stand for X [E, I, O], each expert transposed, whose numbers bf16 holds as they are.
//
// Letters: E experts, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "hone/module.h"
#include "hub/places.h"

namespace hone::hub {

class Mxfp4 {
 public:
  // X in two tensors, which must outlive it. Error(checkpoint): they are not such ones.
  Mxfp4(const std::string& name, const SafetensorsSet::Place& blocks, const SafetensorsSet::Place& scales);
  Mxfp4(const Mxfp4&) = delete;
  Mxfp4& operator=(const Mxfp4&) = delete;
  // X as one tensor of the blocks' file, of dtype "MXFP4" and as long as both, which no file's read() can give. Valid
  // as long as this is.
  SafetensorsSet::Place whole() const { return {blocks_.file, &whole_}; }
  const SafetensorsSet::Place& blocks() const { return blocks_; }
  const SafetensorsSet::Place& scales() const { return scales_; }

  // Error(checkpoint): a scale with which numbers are infinite, or none.
  at::Tensor read(at::ScalarType type) const;
  // What a weight's layout says of it. Error(checkpoint): the weight is of another shape.
  at::Tensor read(const Weight& weight, at::ScalarType type) const;

 private:
  at::Tensor read_experts(std::int64_t first, std::int64_t last, at::ScalarType type) const;
  template <class T>
  void unpack(std::int64_t first_expert, const at::Tensor& into) const;
  SafetensorsSet::Place blocks_, scales_;
  TensorInfo whole_;
};

// All of them, by X. Error(checkpoint): one half of them is missing.
std::map<std::string, Mxfp4> find_mxfp4(const Places& tensors);
bool holds_mxfp4(const std::filesystem::path& folder);

// What type holds a tensor's numbers as they are.
std::string dtype_of_numbers(const TensorInfo& tensor);

}  // namespace hone::hub
