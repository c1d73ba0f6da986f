// What a pass needs to know of the tokens before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nn/rope.h"
#include "ops/rope.h"

namespace hone::nn {

class Past {
 public:
  virtual ~Past() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t length(std::int64_t row) const = 0;  // tokens of the row so far
  // int64 [rows], on the device: the position of each row's next token.
  virtual at::Tensor positions_R(at::Device device) = 0;
  // cos and sin of positions 0 to `end` and beyond, of documents of length class 0: kept from pass to pass.
  virtual const ops::RopeTable& rope_table(const Rope& rope, std::int64_t end, const at::Tensor& like) = 0;
  virtual void note_other_angles() = 0;  // the pass has others, as it has a document of another class
};

}  // namespace hone::nn
