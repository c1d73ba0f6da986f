// The short way of models whose blocks are Llama's: without tensors, in one parallel region.
//
// Letters: R rows, V vocabulary, D hidden, H query heads, G key/value heads, K head size, C capacity of the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/decoding/decoder.h"
#include "nn/rope.h"
#include "ops/linear.h"

namespace hone::nn {

// x += o(attention(rope(q, k), v)); x += down(act(gate) * up); each of rms_norm(x).
struct PreNormLayer {
  at::Tensor attention_norm_D, mlp_norm_D;
  ops::LinearWeight q, k, v, o;
  at::Tensor q_norm_K, k_norm_K;  // undefined: none
  ops::GatedMlpWeights mlp;
  std::int64_t window = 0;  // as in ops::Mask
  bool rotates = true;      // q and k
};

struct PreNormStack {
  at::Tensor embedding_VD, norm_D;
  std::vector<PreNormLayer> layers;
  ops::LinearWeight head;
  std::int64_t head_size = 0;
  double eps = 0, scale = 1;  // of all norms; of the attention's scores
  ops::Activation activation = ops::Activation::silu;
  const Rope* rope = nullptr;
};

// Gives the same bits as the ops that it stands for, whatever the number of threads, and keeps its room from step to
// step. Null: more than kSkinnyRows rows, kernels are off, or not everything lies in CPU memory in one type.
std::unique_ptr<Decoder> make_pre_norm_decoder(PreNormStack stack, std::int64_t rows);

}  // namespace hone::nn
