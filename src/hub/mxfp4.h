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

#include <memory>
#include <string>
#include <vector>

#include "hub/packed/packed.h"

namespace hone::hub {

class Mxfp4 final : public Packed {
 public:
  // X in two tensors. Error(checkpoint): they are not such ones.
  Mxfp4(const std::string& name, const SafetensorsSet::Place& blocks, const SafetensorsSet::Place& scales);

 protected:
  // Error(checkpoint): a scale with which numbers are infinite, or none.
  at::Tensor read_some(std::int64_t first, std::int64_t last, at::ScalarType type) const override;

 private:
  template <class T>
  void unpack(std::int64_t first_expert, const at::Tensor& into) const;
};

// All of them. Error(checkpoint): one half of them is missing.
std::vector<std::shared_ptr<const Packed>> find_mxfp4(const Places& tensors);

}  // namespace hone::hub
