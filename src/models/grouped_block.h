// What models with experts by groups share: the block's MLP, and the model around the blocks.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <string>

#include "models/grouped_experts.h"
#include "models/llama_model.h"

namespace hone::models {

// Experts, or in some layers a plain MLP.
class GroupedMlp final : public Module {
 public:
  GroupedMlp(const LlamaShape& s, const GroupedExperts& experts, std::int64_t layer) {
    if (experts.sparse[static_cast<std::size_t>(layer)])
      routed_ = &child<nn::RoutedMlp>("", experts.options(s));
    else
      plain_ = &child<nn::GatedMlp>("", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, /*bias=*/false, s.std});
  }
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    return routed_ ? (*routed_)(x_1ND, pass) : (*plain_)(x_1ND, pass);
  }

 private:
  const nn::RoutedMlp* routed_ = nullptr;  // one of the two
  const nn::GatedMlp* plain_ = nullptr;
};

// A: the attention, made as A(shape, ropes, layer).
template <class A, class S>
class GroupedBlock final : public nn::ResidualBlock {
 public:
  GroupedBlock(const S& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape),
        self_attn(child<A>("self_attn", s, ropes, layer)),
        mlp(child<GroupedMlp>("mlp", s, s.experts, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
  }

 private:
  const S& s;
  A& self_attn;
  GroupedMlp& mlp;
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

// S: a GroupedShape, or more.
template <class A, class S>
class GroupedModel : public LlamaModel<GroupedBlock<A, S>, S> {
  using Base = LlamaModel<GroupedBlock<A, S>, S>;

 public:
  using Base::Base;

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) nn::balance(pass, Base::s.experts.per_token, /*coefficient=*/0);
    return Base::finish(x_1ND, pass);
  }
  bool shares_prefixes() const override { return false; }  // what is counted of experts is of each document's tokens
  bool is_no_weight(const std::string& tensor) const override { return is_of_guessing_layer(tensor, Base::s); }
};

}  // namespace hone::models
