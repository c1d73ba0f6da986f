// One new token per row through a whole stack of pre-norm blocks, in one parallel region and without tensors.
//
// Letters: R rows, V vocabulary, D hidden, H query heads, G key/value heads, K head size, C capacity of the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/linear.h"
#include "ops/rope.h"

namespace hone::ops {

// x += o(attention(rope(q, k), v)); x += down(act(gate) * up); each of rms_norm(x).
struct DecoderLayer {
  at::Tensor attention_norm_D, mlp_norm_D;
  LinearWeight q, k, v, o;
  at::Tensor q_norm_K, k_norm_K;  // undefined: none
  GatedMlpWeights mlp;
  std::int64_t window = 0;  // as in AttentionOptions
};

struct DecoderWeights {
  at::Tensor embedding_VD, norm_D;
  std::vector<DecoderLayer> layers;
  LinearWeight head;
  std::int64_t head_size = 0;
  double eps = 0, scale = 1;  // of all norms; of the attention's scores
  Activation activation = Activation::silu;
};

// A layer's keys and values, [R,G,C,K] in the weights' type, with room for one more token in each row.
struct DecoderCache {
  void *k = nullptr, *v = nullptr;
  std::int64_t capacity = 0;
  std::vector<std::int64_t> held;  // per row
};

struct DecoderStep {
  std::span<const std::int32_t> ids;  // one per row
  std::span<const std::int64_t> positions;
  const RopeTable* rope = nullptr;  // cos and sin of all positions up to the highest; its rows are not looked at
  std::vector<DecoderCache>* caches = nullptr;  // per layer; the step writes the token's keys and values
};

// Gives the same bits as the ops that it stands for, whatever the number of threads. Keeps its room from step to step.
// Not thread-safe.
class Decoder {
 public:
  // Whether these weights can be used: kernels are on, everything lies in CPU memory in one type.
  static bool takes(const DecoderWeights& weights);
  // REQUIRES: takes(weights). rows: at most, up to kSkinnyRows.
  Decoder(DecoderWeights weights, std::int64_t rows);
  ~Decoder();

  void step(const DecoderStep& step);
  // Of the last step; both are good until the next one. fp32 logits, [R,V], and each row's likeliest token: -1 where a
  // logit is infinite or not a number.
  std::span<float> logits();
  std::span<const std::int32_t> likeliest() const;

  class Steps;  // for one type of weights

 private:
  std::unique_ptr<Steps> steps_;
};

}  // namespace hone::ops
