// Of models with LayerNorms that drop parts of embeddings in training.
//
// Letters in tensor names: B batch, T time, D hidden.
#pragma once

#include "hone/layers.h"
#include "models/llama_model.h"

namespace hone::models {

struct DroppingShape : LlamaShape {
  double embedding_dropout = 0;  // a share; that of what attention and MLP give is LlamaShape's
};

template <class B>
class DroppingModel : public LlamaModel<B, DroppingShape, nn::LayerNorm> {
  using Base = LlamaModel<B, DroppingShape, nn::LayerNorm>;

 public:
  using Base::Base;
  Tensor embed(const Batch& batch, Pass& pass) const override {
    return nn::dropout_embedded(Base::embed(batch, pass), Base::s.embedding_dropout, pass, "embeddings");
  }
};

}  // namespace hone::models
