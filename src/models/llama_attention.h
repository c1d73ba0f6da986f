// Attention of Llama and its relatives: of grouped heads, rotated in all layers or in some, in windows or without.
//
// Letters in tensor names: N tokens, H query heads, G key/value heads, K head size.
#pragma once

#include <map>
#include <optional>

#include "hone/layers.h"
#include "models/llama_config.h"
#include "nn/decoding/pre_norm.h"

namespace hone::models {

// The rotary embeddings of a model's layers.
class LlamaRopes {
 public:
  explicit LlamaRopes(const LlamaShape& shape);
  const nn::Rope* of(std::int64_t layer) const;  // null: it is not rotated
  bool depend_on_length() const;

 private:
  const LlamaShape& s;
  nn::Rope rope_;
  std::optional<nn::Rope> sliding_;
  std::map<double, nn::Rope> by_theta_;  // where layers have bases of their own
};

// The first `size` values of each head alone, as many as there are angles for twice. Neighbours that are turned
// together come to stand as far apart as ops::rope has them, and stay there: scores of queries and keys are the same.
Tensor partly_rotated(const Tensor& x_NHK, std::int64_t size, bool neighbours, const ops::RopeTable& table);

// Queries as they grow with the positions that their tokens have.
Tensor grown(const Tensor& q_NHK, const LlamaShape::QueryGrowth& growth, const Tensor& position_N);

// What a layer's attention is besides its weights: of heads that are yet to be rotated.
class LayerAttention {
 public:
  LayerAttention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), rope_(ropes.of(layer)), window_(shape.windows[layer]) {}
  // sinks_H: as AttentionOptions has them; null: none.
  Tensor operator()(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                    const Tensor* sinks_H = nullptr) const;
  const nn::Rope* rope() const { return rope_; }
  std::int64_t window() const { return window_; }

  // The two halves of it: heads rotated, where the layer does; and the attention of such.
  Tensor rotated(const Tensor& x_NHK, Pass& pass) const;
  Tensor of_rotated(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
                    const Tensor* sinks_H = nullptr) const;

 private:
  ops::AttentionOptions options(const Tensor* sinks_H) const;
  const LlamaShape& s;
  const nn::Rope* rope_;
  std::int64_t window_;
};

class LlamaAttention final : public Module {
 public:
  LlamaAttention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer);
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const;
  void describe(nn::PreNormLayer& layer, const Pass& pass) const;

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias);
  const nn::Norm& norm(const char* name, std::int64_t heads);
  const LlamaShape& s;
  LayerAttention attend_;
  nn::Linear& q_proj = projection("q_proj", s.hidden, s.heads* s.head_size, s.qkv_bias);
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& o_proj = projection(s.output, s.heads* s.head_size, s.hidden, s.output_bias);
  const nn::Norm *q_norm = nullptr, *k_norm = nullptr;
  Weight* sinks = nullptr;
};

}  // namespace hone::models
