// A relative of Llama that reads pictures, too: what LLaVA and Qwen-VL share.
#pragma once

#include <string>

#include "models/llama_stack.h"
#include "models/picture_keys.h"
#include "models/pictures.h"

namespace hone::models {

template <class Stack>
class PictureModelOf : public Stack {
 public:
  template <class Shape>
  PictureModelOf(Shape texts, const PictureInput& input) : Stack(std::move(texts)), input_(input) {}
  const PictureInput* pictures() const final { return &input_; }
  bool takes_context() const final { return false; }  // where its tokens stand is told of whole documents
  bool takes_tensor() const final { return false; }
  std::string base_prefix() const final { return "model."; }
  bool is_no_weight(const std::string& tensor) const final {
    return Stack::is_no_weight(tensor) || tensor.ends_with("embeddings.position_ids");
  }
  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = Stack::embed(batch, pass);
    if (batch.pictures.spans.empty()) return x_BTD;
    check_pictures(batch, input_);
    return with_pictures(x_BTD, features_MD(batch, x_BTD, pass), batch, input_);
  }

 protected:
  // What the tower makes of the batch's pictures, of which there are some: a vector for each token of theirs.
  virtual Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const = 0;
  const PictureInput input_;
};
using PictureModel = PictureModelOf<LlamaStack>;

}  // namespace hone::models
