// Blocks of memory out of one region, the best fitting free one first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>

namespace hone {

// Hands out blocks of the region [begin, begin + bytes), which it does not touch. A free block next to another becomes
// one with it, so that what was given back serves requests of any size. Thread-safe; logarithmic in the number of
// blocks.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 64;

  Arena(void* begin, std::size_t bytes);
  // At least `bytes` bytes at a multiple of kAlignment; null: there is no free block as large.
  void* take(std::size_t bytes);
  // A block that take() gave; null is allowed. False: it is not the arena's.
  bool give_back(void* block);
  // Of a block in use: nobody had any of it before, so that memory which the system gave is all zero until its owner
  // writes there.
  bool is_untouched(const void* block) const;
  std::size_t in_use() const;   // bytes
  std::size_t reached() const;  // bytes from the region's begin to the end of the highest block that ever was in use

 private:
  struct Block {
    std::size_t bytes;
    bool free, untouched = false;
  };
  using Blocks = std::map<std::uintptr_t, Block>;  // by address: the whole region, without gaps
  void add_free(std::uintptr_t begin, std::size_t bytes);
  void remove_free(Blocks::iterator block);

  const std::uintptr_t begin_, end_;
  mutable std::mutex mutex_;
  Blocks blocks_;
  std::set<std::pair<std::size_t, std::uintptr_t>> free_;  // size, address
  std::size_t in_use_ = 0, reached_ = 0;
};

}  // namespace hone
