// What models with experts by groups share: the MLP, and the model around the blocks.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <string>

#include "models/grouped_experts.h"
#include "models/llama_model.h"
#include "models/mlp_or_experts.h"
#include "models/pre_norm_block.h"

namespace hone::models {

class GroupedMlp final : public MlpOrExperts {
 public:
  GroupedMlp(const GroupedShape& s, std::int64_t layer)
      : MlpOrExperts(s.experts.sparse[static_cast<std::size_t>(layer)], s.experts.options(s, layer),
                     {s.hidden, s.inner, s.activation, s.mlp_bias, s.std}) {}
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
