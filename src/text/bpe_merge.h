// The merging of byte-pair encoding: from symbols to tokens by a table of ranked pairs.
#pragma once

#include <cstdint>
#include <vector>

#include "text/flat_map.h"

namespace hone::text {

// (left id, right id) -> rank and the id of both together.
class MergeTable {
 public:
  static constexpr std::uint64_t kNone = FlatMap::kNone;
  void reserve(std::size_t merges) { map_.reserve(merges); }
  void set(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t merged) {
    map_.set(key(left, right), static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(merged));
  }
  // rank << 32 | merged id, or kNone, which is above every rank.
  std::uint64_t find(std::int32_t left, std::int32_t right) const { return map_.find(key(left, right)); }
  bool empty() const { return map_.size() == 0; }

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  FlatMap map_;
};

// A word's symbols, in order; `size` is what each covers in the word.
struct Symbol {
  std::int32_t id;
  std::uint32_t size;
};

// Merges in place, always the pair of lowest rank, of those the leftmost. O(n log n). One thread at a time.
class Merger {
 public:
  void merge(const MergeTable& table, std::vector<Symbol>& symbols);

 private:
  void merge_short(const MergeTable& table, std::vector<Symbol>& symbols);
  void merge_long(const MergeTable& table, std::vector<Symbol>& symbols);
  void push(std::size_t at, std::uint64_t pair);
  std::vector<std::uint64_t> pairs_;  // of each symbol with the next: what the table says
  std::vector<std::uint64_t> heap_;   // rank << 32 | position
  std::vector<std::uint32_t> next_, previous_;
};

}  // namespace hone::text
