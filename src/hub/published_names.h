// Names that tensors have in folders of models whose authors' code came before transformers', which transformers 5
// itself still writes, by the names that its models have:
//
//   nomic_bert          encoder.layers.0.attn.Wqkv, mlp.fc11, norm1, emb_ln, …
//   gte                 new.encoder.layer.0.attention.qkv_proj, mlp.up_gate_proj, attn_ln, …
//   jina_embeddings_v3  encoder.layers.0.mixer.Wqkv, norm1, emb_ln, …
#pragma once

#include <deque>
#include <filesystem>

#include "hub/places.h"

namespace hone::hub {

// By the folder's config.json. Tensors of several products are told one by one; those that come into being are kept in
// `parts`. Throws Error(checkpoint).
void take_published_names(const std::filesystem::path& folder, Places& places, std::deque<TensorInfo>& parts);

}  // namespace hone::hub
