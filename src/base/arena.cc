// Blocks of memory out of one region.
#include "base/arena.h"

#include <algorithm>

namespace hone {

Arena::Arena(void* begin, std::size_t bytes)
    : begin_((reinterpret_cast<std::uintptr_t>(begin) + kAlignment - 1) / kAlignment * kAlignment),
      end_(std::max(begin_, (reinterpret_cast<std::uintptr_t>(begin) + bytes) / kAlignment * kAlignment)) {
  if (end_ > begin_) add_free(begin_, end_ - begin_);
}

void* Arena::take(std::size_t bytes) {
  if (bytes > end_ - begin_) return nullptr;
  const std::size_t wanted = std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  const std::lock_guard lock(mutex_);
  const auto fit = free_.lower_bound({wanted, 0});  // of equal ones the lowest
  if (fit == free_.end()) return nullptr;
  const auto block = blocks_.find(fit->second);
  const std::uintptr_t at = block->first;
  const std::size_t left = block->second.bytes - wanted;
  free_.erase(fit);
  block->second = {wanted, false, at >= begin_ + reached_};
  if (left > 0) add_free(at + wanted, left);
  in_use_ += wanted;
  reached_ = std::max<std::size_t>(reached_, at + wanted - begin_);
  return reinterpret_cast<void*>(at);
}

bool Arena::give_back(void* pointer) {
  if (!pointer) return true;
  std::uintptr_t at = reinterpret_cast<std::uintptr_t>(pointer);
  if (at < begin_ || at >= end_) return false;
  const std::lock_guard lock(mutex_);
  auto block = blocks_.find(at);
  if (block == blocks_.end() || block->second.free) return false;
  std::size_t bytes = block->second.bytes;
  in_use_ -= bytes;
  if (const auto next = std::next(block); next != blocks_.end() && next->second.free)
    bytes += next->second.bytes, remove_free(next);
  if (block != blocks_.begin())
    if (const auto before = std::prev(block); before->second.free)
      at = before->first, bytes += before->second.bytes, remove_free(before);
  blocks_.erase(block);
  add_free(at, bytes);
  return true;
}

bool Arena::is_untouched(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
  return block != blocks_.end() && block->second.untouched;
}

std::size_t Arena::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

std::size_t Arena::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}

void Arena::add_free(std::uintptr_t begin, std::size_t bytes) {
  blocks_[begin] = {bytes, true};
  free_.insert({bytes, begin});
}

void Arena::remove_free(Blocks::iterator block) {
  free_.erase({block->second.bytes, block->first});
  blocks_.erase(block);
}

}  // namespace hone
