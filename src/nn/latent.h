// Attention whose keys and values are made of one latent vector of each token (multi-head latent attention;
// DeepSeek-AI, 2024, arXiv:2405.04434, section 2.1).
//
// Letters: N tokens, H heads, K size of queries and keys, P what of it is rotated, L size of a latent, V size of
// values.
#pragma once

#include <cstdint>

#include "hone/layers.h"
#include "hone/model.h"

namespace hone::nn {

struct LatentHeads {
  std::int64_t heads = 1;
  std::int64_t plain = 0, rotated = 0;  // of a query and a key: they add up to K
  std::int64_t values = 0, latent = 0;  // V, L
};

// What tokens bring. q: plain, then rotated, which is turned; rotated_NP: that part of keys, turned, of all heads
// alike.
struct LatentTokens {
  Tensor q_NHK, latent_NL, rotated_NP;
};

// y_NHV. expand: [H (plain + V), L], without a bias; of each head what makes the plain part of its keys, then what
// makes its values. In generation latents and rotated parts alone are kept, and queries meet them where they lie: K's
// and V's weights then stand on the other side of the sums.
Tensor attend_latents(const LatentTokens& tokens, const Linear& expand, const LatentHeads& sizes, Pass& pass,
                      ops::AttentionOptions options);

// expand's weight with the pass's adapter, [H, plain + V, L]; a copy where it is held in few bits.
Tensor weight_of_heads(const Linear& expand, const LatentHeads& sizes, const Pass& pass);

}  // namespace hone::nn
