// Models of which some layers have routed experts and others a plain MLP.
#pragma once

#include "models/decoding_llama.h"
#include "nn/experts.h"

namespace hone::models {

// One of the two, under its own name.
class MlpOrExperts : public Module {
 public:
  static constexpr bool kTakesTensor = true;  // both know of slices
  MlpOrExperts(bool has_experts, const nn::RoutedMlp::Options& experts, const nn::GatedMlp::Options& mlp) {
    if (has_experts)
      routed_ = &child<nn::RoutedMlp>("", experts);
    else
      plain_ = &child<nn::GatedMlp>("", mlp);
  }
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    return routed_ ? (*routed_)(x_1ND, pass) : (*plain_)(x_1ND, pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    routed_ ? routed_->describe(layer, pass) : describe_mlp(*plain_, layer, pass);
  }

 private:
  const nn::RoutedMlp* routed_ = nullptr;
  const nn::GatedMlp* plain_ = nullptr;
};

}  // namespace hone::models
