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
class PastTexts {
 public:
  virtual ~PastTexts() = default;
  // Of the cache's row, which has read these tokens.
  virtual void keep(std::span<const std::int32_t> ids, const nn::KvCache& cache, std::int64_t row) = 0;
  // What is here of a text's beginning, in a cache of one row; at least one of its tokens is left to be read. null:
  // there is nothing that is worth its while.
  virtual std::unique_ptr<nn::KvCache> beginning_of(std::span<const std::int32_t> ids) = 0;
};

// Of texts that any number of others may begin as: these get copies.
class KeptTexts final : public PastTexts {
 public:
  // bytes: of memory that it may take; who has not been of use for longest goes first.
  explicit KeptTexts(std::int64_t bytes) : most_bytes_(bytes) {}

  void keep(std::span<const std::int32_t> ids, const nn::KvCache& cache, std::int64_t row) override;
  // Of the longest beginning that is here.
  std::unique_ptr<nn::KvCache> beginning_of(std::span<const std::int32_t> ids) override;
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

// Of conversations, each of which goes on once from all of what was read of it: that is handed over.
class KeptTurns final : public PastTexts {
 public:
  // Of so many at most; more are not kept, so that those that are here find theirs when it is their turn.
  explicit KeptTurns(std::int64_t most) : most_(most) {}

  void keep(std::span<const std::int32_t> ids, const nn::KvCache& cache, std::int64_t row) override;
  std::unique_ptr<nn::KvCache> beginning_of(std::span<const std::int32_t> ids) override;
  void forget(std::span<const std::int32_t> ids) { take(ids); }  // of a conversation that does not go on
  std::int64_t size() const { return std::ssize(turns_); }

 private:
  // That of the longest text with which these tokens begin.
  std::unique_ptr<nn::KvCache> take(std::span<const std::int32_t> ids);
  struct Turn {
    std::vector<std::int32_t> ids;
    std::unique_ptr<nn::KvCache> cache;
  };
  std::list<Turn> turns_;
  std::int64_t most_;
};

}  // namespace hone::generate
