// What texts that were read have left, for others that begin as they do: the next turn of a chat, a prompt with the
// same instructions.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "nn/kv_cache.h"

namespace hone::generate {

// Not thread-safe.
class KeptTexts {
 public:
  // bytes: of memory that it may take; who has not been of use for longest goes first.
  explicit KeptTexts(std::int64_t bytes) : most_bytes_(bytes) {}

  // Of the cache's row, which has read these tokens.
  void keep(std::span<const std::int32_t> ids, const nn::KvCache& cache, std::int64_t row);
  // What the longest beginning of the text that is here has left, and so many of its tokens; at least one is left to be
  // read. null: there is none that is worth its while.
  std::unique_ptr<nn::KvCache> beginning_of(std::span<const std::int32_t> ids);
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Text {
    std::vector<std::int32_t> ids;
    std::unique_ptr<nn::KvCache> cache;
    std::int64_t bytes = 0;
  };
  void remove(std::list<Text>::iterator text);
  std::list<Text> texts_;  // the one that was of use last is the first
  std::int64_t most_bytes_, bytes_ = 0;
};

}  // namespace hone::generate
