// Llama and its relatives: what distinguishes them in config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hone/op_options.h"

namespace hone::models {

// Whether queries and keys are normed: each head, also once it is rotated; all heads together; each head by a
// LayerNorm, with the same weights for all, or weights of its own, in one tensor or in one each.
enum class QkNorm { none, head, rotated_head, row, layer, own, listed };

// Which layers slide; used: use_sliding_window. mistral: all, or what layer_types says: transformers takes it for
// Ministral then. ministral: the same, and config.json always lists them. given: all if there is a sliding_window.
// pattern: all but every n-th, or what layer_types says. listed: those of layer_types, if used. remembered: none;
// layer_types says which layers have memories instead. behind: those from max_window_layers on, or of layer_types.
enum class Windows { none, mistral, ministral, all_if_used, by_layer, given, pattern, listed, remembered, behind };
inline bool may_slide(Windows windows) { return windows != Windows::none && windows != Windows::remembered; }

// What absent keys mean, and which keys a model type has at all.
struct Family {
  const char *model_type, *architecture;
  std::int64_t vocab, hidden, inner, layers;
  std::int64_t heads = 32, kv_heads = 0, head_size = 0;  // kv_heads 0: as num_attention_heads; head_size 0: computed
  std::int64_t max_positions = 2048;
  bool reads_attention_bias = true, reads_mlp_bias = false, always_qkv_bias = false;
  QkNorm qk_norm = QkNorm::none;
  Windows windows = Windows::none;
  std::int64_t pattern = 0;                // of Windows::pattern; of Windows::behind max_window_layers
  bool writes_computed_head_size = false;  // transformers puts one into config.json that it was not given
  const char *activation = "silu", *activation_key = "hidden_act", *eps_key = "rms_norm_eps";
  double eps = 1e-6, std = 0.02, theta = 10000;
  bool tied = false;
  const char* classifier = "";  // transformers' name of it, where it is not as usual; null: it has none
  std::int64_t pad = -1;        // token; -1: none
  bool partial_rope = false, two_ropes = false;    // of parts of heads; another one in layers that slide
  ops::RmsFactor factor = ops::RmsFactor::weight;  // of its norms
};
const Family* family_of(const std::string& model_type);  // null: it is none of them
std::span<const Family> more_families();                 // parts of all, which are files of their own
std::span<const Family> routed_families();
std::span<const Family> newer_families();

}  // namespace hone::models
