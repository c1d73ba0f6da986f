// What models with experts by groups share: the MLP, and the model around the blocks.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <string>

#include "models/grouped_experts.h"
#include "models/llama_model.h"
#include "models/pre_norm_block.h"

namespace hone::models {

// Experts, or in some layers a plain MLP.
class GroupedMlp final : public Module {
 public:
  static constexpr bool kTakesTensor = true;  // both know of slices
  GroupedMlp(const GroupedShape& s, std::int64_t layer) {
    if (s.experts.sparse[static_cast<std::size_t>(layer)])
      routed_ = &child<nn::RoutedMlp>("", s.experts.options(s, layer));
    else
      plain_ = &child<nn::GatedMlp>("", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  }
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    return routed_ ? (*routed_)(x_1ND, pass) : (*plain_)(x_1ND, pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    routed_ ? routed_->describe(layer, pass) : describe_mlp(*plain_, layer, pass);
  }

 private:
  const nn::RoutedMlp* routed_ = nullptr;  // one of the two
  const nn::GatedMlp* plain_ = nullptr;
};

// A: the attention; S: a GroupedShape, or more; M: experts or MLP, made as GroupedMlp is.
template <class A, class S, class M = GroupedMlp>
class GroupedModel : public Balanced<DecodingLlama<PreNormBlock<S, M, A>, S>> {
  using Base = Balanced<DecodingLlama<PreNormBlock<S, M, A>, S>>;

 public:
  using Base::Base;

  bool is_no_weight(const std::string& tensor) const override { return is_of_guessing_layer(tensor, Base::s); }
};

}  // namespace hone::models
