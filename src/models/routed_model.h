// Relatives of Llama whose layers all have routed experts in place of the MLP.
#pragma once

#include "models/balanced_model.h"
#include "models/pre_norm_block.h"
#include "nn/experts.h"

namespace hone::models {

struct RoutedShape : LlamaShape {
  nn::RoutedMlp::Options experts;
  double balance = 0;  // coefficient of the balancing loss; 0: none
  const nn::RoutedMlp::Options& mlp_options() const { return experts; }
  Balancing balancing() const { return {experts.per_token, balance}; }
};

// B: the blocks; S: a RoutedShape, or more.
template <class B = PreNormBlock<RoutedShape, nn::RoutedMlp>, class S = RoutedShape>
class RoutedModel : public Balanced<DecodingLlama<B, S>> {
 public:
  using Balanced<DecodingLlama<B, S>>::Balanced;
};

}  // namespace hone::models
