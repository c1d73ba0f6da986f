// Decoders whose layers have memories, such as state spaces, in some places and attention in others: the model around
// the blocks.
#pragma once

#include <algorithm>
#include <vector>

#include "models/decoding_llama.h"

namespace hone::models {

// S: a LlamaShape and a MambaShape or a DeltaShape, or more.
template <class B, class S>
class HybridModel : public DecodingLlama<B, S> {
  using Base = DecodingLlama<B, S>;

 public:
  using Base::Base;
  using Base::s;

  bool shares_prefixes() const override { return false; }  // a memory is of one document
  std::vector<AttentionLayer> attention() const override {
    return std::vector<AttentionLayer>(std::count(s.remembers.begin(), s.remembers.end(), false),
                                       AttentionLayer{s.heads, s.head_size});
  }
  std::vector<MemoryLayer> memories() const override {
    return std::vector<MemoryLayer>(std::count(s.remembers.begin(), s.remembers.end(), true), s.memory());
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const bool remembers : s.remembers)
      spec.layers.push_back(remembers ? CacheSpec::Layer{.memory = s.memory()}
                                      : CacheSpec::Layer{s.kv_heads, s.head_size});
    return spec;
  }
};

}  // namespace hone::models
