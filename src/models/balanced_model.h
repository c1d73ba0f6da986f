// Models whose tokens choose experts.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <cstdint>

#include "hone/model.h"
#include "nn/experts.h"

namespace hone::models {

// What a shape's balancing() says.
struct Balancing {
  std::int64_t per_token = 1;  // experts of a token
  double coefficient = 0;      // of the balancing loss; 0: none
};

// Stack: a model whose shape s has balancing(). At its end training counts where tokens went.
template <class Stack>
class Balanced : public Stack {
 public:
  using Stack::Stack;

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    const Balancing wanted = Stack::s.balancing();
    if (pass.training) nn::balance(pass, wanted.per_token, wanted.coefficient);
    return Stack::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // what is counted of experts is of each document's tokens
};

}  // namespace hone::models
