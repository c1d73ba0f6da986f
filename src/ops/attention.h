// Attention within documents, causal or full: what lies in no document is neither read nor written.
//
// Letters: N tokens (all rows of a batch one after another), H query heads, G key/value heads (H a multiple of G), K
// head size, L cached tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/op_options.h"
#include "ops/documents.h"
#include "ops/primitives.h"

namespace hone::ops {

// softmax(q k^T scale) v over the keys that the mask shows, inside each document; their spans are in order and do
// not overlap. Rows outside all of them are 0.
at::Tensor attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                     const Documents& documents, const AttentionOptions& options);

// The newest N tokens of one sequence against its L cached keys and values, which include them. No gradient. REQUIRES,
// as below: a causal mask.
at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options);

// One new token per row, which is entry held_R[row] (int64, on the device) of the row's cache, against the entries up
// to it. Nothing here asks where that is: what a device was told for one step is good for the next one, too. No
// gradient. Letters: R rows, C capacity of the cache.
at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options);

// A pass's keys and values into a cache: all runs at once, which do not overlap. No gradient.
void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs);
// Those of one token per row, to entry held_R[row].
void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R);

// Tokens that are rotated, stored as by store_one_each() and attend as by decode_attention().
at::Tensor decode_new_tokens(const NewTokens& tokens, const CacheRoom& room, const at::Tensor& held_R,
                             const AttentionOptions& options);

// What was made without sinks becomes what it is with them.
void add_sinks(Attended& made, const at::Tensor& sinks_H);

namespace reference {
at::Tensor attention(const at::Tensor& q_NHK, const at::Tensor& k_NGK, const at::Tensor& v_NGK,
                     const std::vector<Span>& spans, const AttentionOptions& options);
at::Tensor cached_attention(const at::Tensor& q_NHK, const at::Tensor& k_GLK, const at::Tensor& v_GLK,
                            const AttentionOptions& options);
at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options);
}  // namespace reference

}  // namespace hone::ops
