// The merging of byte-pair encoding: from symbols to tokens by a table of ranked pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "text/parts/flat_map.h"

namespace hone::text {

// (left id, right id) -> rank and the id of both together.
class MergeTable {
 public:
  static constexpr std::uint64_t kNone = FlatMap::kNone;
  void reserve(std::size_t merges) { map_.reserve(merges); }
  void set(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t merged) {
    map_.set(key(left, right), static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(merged));
    end_rank_ = std::max(end_rank_, rank + 1);
  }
  // rank << 32 | merged id, or kNone, which is above every rank.
  std::uint64_t find(std::int32_t left, std::int32_t right) const { return map_.find(key(left, right)); }
  bool empty() const { return map_.size() == 0; }
  std::uint32_t end_rank() const { return end_rank_; }  // highest rank + 1

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  FlatMap map_;
  std::uint32_t end_rank_ = 0;
};

// A word's symbols, in order; `size` is what each covers in the word.
struct Symbol {
  std::int32_t id;
  std::uint32_t size;
};

// Merges in place, always the pair of lowest rank, of those the leftmost. O(n log k) where k pairs differ, O(n log n)
// at worst. One thread at a time.
class Merger {
 public:
  void merge(const MergeTable& table, std::vector<Symbol>& symbols);

 private:
  void merge_short(const MergeTable& table, std::vector<Symbol>& symbols);
  void merge_long(const MergeTable& table, std::vector<Symbol>& symbols);
  void set_pair(std::uint32_t at, std::uint64_t pair);
  std::uint64_t pop();
  void join(const MergeTable& table, std::vector<Symbol>& symbols, std::uint32_t at);
  std::vector<std::uint64_t> pairs_;  // of each symbol with the next: what the table says
  std::vector<std::uint32_t> next_, previous_;
  // Where pairs are: of each rank a list of rising positions, of which the first is in the heap. Positions that would
  // not rise are in the heap by themselves. So a long run of one pair makes no large heap.
  struct Place {
    std::uint32_t at, next;
  };
  struct List {
    std::uint32_t first = kEnd, last = kEnd;  // in places_
  };
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  std::vector<std::uint64_t> heap_;  // rank << 32 | position
  std::vector<Place> places_;
  std::vector<List> lists_;  // by rank; all empty between calls
};

}  // namespace hone::text
