// One new token per row through a whole model in one go: generation's short way, the same bits as the long one, which
// is Model::forward and Head::logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hone/model.h"

namespace hone::nn {

class KvCache;

// Not thread-safe. REQUIRES: the model outlives it and its weights stay where they are.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // One token for each row of the cache, which is moved on. false: nothing was done, these positions need the long way.
  virtual bool step(std::span<const std::int32_t> ids, KvCache& cache) = 0;
  // Of the last step, good until the next one: what Head::logits gives, as fp32 [rows, vocabulary], and the place of
  // each row's highest: -1 where a logit is infinite or not a number. Whoever asks for likeliest() first may have no
  // logits after it: a device then goes on to the next step.
  virtual std::span<float> logits() = 0;
  virtual std::span<const std::int32_t> likeliest() = 0;
  // Of each row the `count` highest logits, highest first, and their ids, one row after another: where that is cheaper
  // to have than all of them. Empty: it is not.
  struct Highest {
    std::span<const float> logits;
    std::span<const std::int64_t> ids;
  };
  virtual Highest highest(std::int64_t /*count*/) { return {}; }
};

// What a model may be besides: one that has a short way.
class HasDecoder {
 public:
  virtual ~HasDecoder() = default;
  // For `rows` rows at most; null where the machine has only the long way. pass: which adapter is taken; REQUIRES: it
  // is such that a product's own op can make it.
  virtual std::unique_ptr<Decoder> make_decoder(std::int64_t rows, const Pass& pass) const = 0;
};

}  // namespace hone::nn
