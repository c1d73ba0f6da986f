// Relatives of Llama whose layers all have routed experts in place of the MLP.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include "models/pre_norm_block.h"
#include "nn/experts.h"

namespace hone::models {

struct RoutedShape : LlamaShape {
  nn::RoutedMlp::Options experts;
  double balance = 0;  // coefficient of the balancing loss; 0: none
  const nn::RoutedMlp::Options& mlp_options() const { return experts; }
};

// B: the blocks.
template <class B = PreNormBlock<RoutedShape, nn::RoutedMlp>>
class RoutedModel : public LlamaModel<B, RoutedShape> {
  using Base = LlamaModel<B, RoutedShape>;

 public:
  using Base::Base;

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) nn::balance(pass, Base::s.experts.per_token, Base::s.balance);
    return Base::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // the router's loss counts each token of each document
};

}  // namespace hone::models
