// What models have in common that read a source whole and answer with a target. Both are on their way through the one
// loop over blocks: first those of the encoder, which work on sources, then those of the decoder, on targets. What is
// not at work waits among what blocks leave for each other (nn::Plan::left).
//
// In a step of generation there are no sources: then the encoder's blocks do nothing, and those of the decoder find
// keys and values in the cache.
//
// Letters in tensor names: B batch, T time, S tokens of sources, N of targets, D hidden.
#pragma once

#include <fmt/format.h>

#include <string>

#include "hone/layers.h"
#include "nn/plan.h"
#include "nn/shared_keys.h"

namespace hone::models {

inline constexpr const char *kSources = "sources", *kTargets = "targets", *kEncoded = "encoded";

inline bool has_sources(Pass& pass) { return !pass.plan().sources().docs.empty(); }

// Of the embeddings, which give targets to the loop and leave sources.
inline void leave_sources(const Tensor& x_1SD, Pass& pass) { pass.plan().left()[kSources] = x_1SD; }

// Of the encoder's first block: targets wait.
inline void begin_sources(nn::Residual& x, Pass& pass) {
  pass.plan().left()[kTargets] = x.sum();
  x = nn::Residual(nn::left(pass, kSources));
}

// Of the decoder's first block; encoded_1SD: what all of its blocks read of sources.
inline void begin_targets(nn::Residual& x, const Tensor& encoded_1SD, Pass& pass) {
  pass.plan().left()[kEncoded] = encoded_1SD;
  x = nn::Residual(nn::left(pass, kTargets));
}

inline const Tensor& encoded(Pass& pass) { return nn::left(pass, kEncoded); }

// Whether a weight is of an encoder, or makes keys and values of what it gives, in parts of the decoder's blocks of
// that name.
inline bool is_of_encoder(const std::string& weight, const std::string& to_sources) {
  if (weight.find("encoder.") != std::string::npos && weight.find("decoder.") == std::string::npos) return true;
  const std::size_t part = weight.find("." + to_sources + ".");
  if (part == std::string::npos) return false;
  const char first = weight[part + to_sources.size() + 2];
  return first == 'k' || first == 'v';
}

// Error(data) for a batch that such a model cannot read.
inline void require_sources(Pass& pass, const std::string& model_type) {
  if (pass.cache || has_sources(pass)) return;
  throw Error(ErrorKind::data, fmt::format("a model of type {} reads sources, and the batch has none", model_type))
      .hint("objective: {type: seq2seq} makes a source and a target of each record");
}

}  // namespace hone::models
