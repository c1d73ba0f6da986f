// A hash map from 64-bit keys to 64-bit values, open addressing, for tables that are filled once and read often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::text {

inline std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15ull;
  return x ^ x >> 29;
}

// Keys must not be kNone. Filled by one thread; any number may read afterwards.
class FlatMap {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  FlatMap() : slots_(16) {}
  void reserve(std::size_t count) {
    std::size_t size = 16;
    while (size < 2 * count) size *= 2;
    if (size > slots_.size()) resize(size);
  }
  // Sets the value, also of a key that is there.
  void set(std::uint64_t key, std::uint64_t value) {
    if (2 * (count_ + 1) > slots_.size()) resize(2 * slots_.size());
    Slot& slot = slots_[place(key)];
    if (slot.key == kNone) ++count_;
    slot = {key, value};
  }
  std::uint64_t find(std::uint64_t key) const { return slots_[place(key)].value; }  // kNone: not there
  std::size_t size() const { return count_; }

 private:
  struct Slot {
    std::uint64_t key = kNone, value = kNone;
  };
  std::size_t place(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = mix(key) & mask;
    while (slots_[i].key != key && slots_[i].key != kNone) i = (i + 1) & mask;
    return i;
  }
  void resize(std::size_t size) {
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kNone) slots_[place(slot.key)] = slot;
  }
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace hone::text
