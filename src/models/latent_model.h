// Models whose attention is by latents, and that have experts by groups.
#pragma once

#include <vector>

#include "models/grouped_block.h"
#include "models/latent_attention.h"

namespace hone::models {

// M: experts or MLP, made as GroupedMlp is.
template <class M = GroupedMlp>
class LatentModel : public GroupedModel<LatentAttention, LatentShape, M> {
  using Base = GroupedModel<LatentAttention, LatentShape, M>;

 public:
  using Base::Base;
  using Base::s;

  std::vector<AttentionLayer> attention() const override {
    const std::int64_t mean = (s.latent.query_size() + s.latent.values) / 2;  // of what scores and values cost
    return std::vector<AttentionLayer>(static_cast<std::size_t>(s.layers), {s.heads, mean});
  }
  CacheSpec cache_spec() const override {
    const CacheSpec::Layer layer{
        .kv_heads = 1, .head_size = s.latent.latent + s.latent.rotated, .values_are_keys = true};
    return {std::vector<CacheSpec::Layer>(static_cast<std::size_t>(s.layers), layer)};
  }
};

}  // namespace hone::models
