// One new token per row through a whole model in one go: generation's short way, the same bits as the long one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hone/model.h"
#include "nn/rope.h"
#include "ops/decoder.h"

namespace hone::nn {

class KvCache;

// What a model whose blocks are of the usual form says of itself: CausalLm::decoder_spec().
struct DecoderSpec {
  ops::DecoderWeights weights;
  const Rope* rope = nullptr;
};

// Not thread-safe. REQUIRES: the model outlives it and its weights stay where they are.
class Decoder {
 public:
  // For `rows` rows at most; null where the model or the machine has only the long way: Model::forward and
  // Head::logits.
  static std::unique_ptr<Decoder> maybe_make(const CausalLm& model, std::int64_t rows);

  // One token for each row of the cache, which is moved on. false: nothing was done, these positions need the long way.
  bool step(std::span<const std::int32_t> ids, KvCache& cache);

  // Of the last step: what Head::logits gives, as fp32 [rows, vocabulary], and the place of each row's highest: -1 where
  // a logit is infinite or not a number.
  std::span<float> logits() { return steps_.logits(); }
  std::span<const std::int32_t> likeliest() const { return steps_.likeliest(); }

 private:
  Decoder(const DecoderSpec& spec, std::int64_t rows);
  const Rope& rope_;
  at::Tensor like_;
  ops::Decoder steps_;
};

}  // namespace hone::nn
