// The short way of models whose blocks are Llama's or nearly so, also with attention by latents, with routed experts,
// or with memories in some layers or beside attention: without tensors, in one parallel region.
//
// Letters: R rows, V vocabulary, D hidden, H query heads, G key/value heads, K head size, C capacity of the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/decoding/decoder.h"
#include "nn/decoding/forms.h"
#include "nn/rope.h"
#include "ops/linear.h"

namespace hone::nn {

// x += o(attention(rope(q, k), v)); x += down(act(gate) * up); each of rms_norm(x). Norms may be undefined: none.
struct PreNormLayer {
  bool has_mixer = true, has_mlp = true;  // false: the layer is the other of the two lines alone
  at::Tensor attention_norm_D, mlp_norm_D;
  at::Tensor attention_out_norm_D, mlp_out_norm_D;  // of what is added
  ops::LinearWeight q, k, v, o;
  at::Tensor q_norm, k_norm;  // of each head, or, where they are as wide, of all heads together
  at::Tensor sinks_H;         // as AttentionOptions has them; undefined: none
  bool is_gated = false;      // q makes beside each head's query what gates the head's result
  ops::LinearWeight head_gate;  // [H, D]: each head's result is multiplied with its sigmoid; undefined: it is not
  std::shared_ptr<const LatentForm> latent;  // in place of attention of heads; null: there is such
  std::shared_ptr<const MemoryForm> memory;  // in place of attention, or beside it; null: there is attention
  bool is_beside = false;                    // the memory and attention of heads read the same, and their sum is added
  // What they read and what they give is multiplied with where they are side by side, the MLP's gate before it is
  // activated, and what the MLP gives.
  struct Scales {
    double attention_in = 1, attention_out = 1, memory_in = 1, memory_out = 1, gate = 1, mlp_out = 1;
  } scales = {};
  ops::GatedMlpWeights mlp;  // up undefined: down(act(gate))
  std::shared_ptr<const RoutedForm> routed;  // in place of the MLP; null: it is there
  std::int64_t window = 0;     // as in ops::Mask
  const Rope* rope = nullptr;  // of q and k, or of the first values of each head; null: they are not rotated
  bool is_known = true;        // false: the layer computes something else
};

struct PreNormStack {
  at::Tensor embedding_VD, norm_D;
  std::vector<PreNormLayer> layers;
  ops::LinearWeight head;
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;
  ops::RmsNormForm norm = {};  // of all norms
  double scale = 1;            // of the attention's scores
  // What embeddings, what is added, and what the head reads are multiplied with.
  double embedding_scale = 1, residual_scale = 1, hidden_scale = 1;
  ops::Activation activation = ops::Activation::silu;
  std::int64_t positions = 0;  // from here on layers compute something else, and step() takes none; 0: they never do
};

// Gives the same bits as the ops that it stands for, whatever the number of threads, and keeps its room from step to
// step; but for gates that these leave to LibTorch's elementwise functions, and memories' steps and decays, where a
// last bit may differ. REQUIRES: weights stay as they are, where a form says that they are fp32. Null: more than
// kSkinnyRows rows, kernels are off, a layer is not known, or not everything lies in CPU memory in one type.
std::unique_ptr<Decoder> make_pre_norm_decoder(PreNormStack stack, std::int64_t rows);

}  // namespace hone::nn
