// Attention of models that read a source whole and answer with a target (Role): within sources, and of targets to them.
//
// Letters: S tokens of sources, N of targets, H query heads, G key/value heads, K head size.
#pragma once

#include <functional>
#include <utility>

#include "hone/layers.h"

namespace hone::nn {

// Of the pass's sources, each within itself, in both directions.
Tensor attend_within_sources(const Tensor& q_SHK, const Tensor& k_SGK, const Tensor& v_SGK, Pass& pass,
                             ops::AttentionOptions options);

// Keys and values [S,G,K] of all sources.
using KeysAndValues = std::pair<Tensor, Tensor>;

// Of the pass's targets to all of their sources, of whose last layer `make` makes keys and values; in generation that
// is done once, with the first tokens of a target.
Tensor attend_to_sources(const Tensor& q_NHK, const std::function<KeysAndValues()>& make, Pass& pass,
                         ops::AttentionOptions options);

// [1,S]: the place of each token in its source.
Tensor source_positions(Pass& pass);

// The tokens of the longest source, and of the longest target so far.
std::int64_t longest_source(Pass& pass);
std::int64_t longest_target(Pass& pass);

}  // namespace hone::nn
