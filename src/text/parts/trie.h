// A trie of byte strings in two arrays: one look-up per byte, for finding all tokens that begin at a place.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::text {

// Immutable once built: any thread may walk. A node is an index; the root is 0.
class Trie {
 public:
  static constexpr std::uint32_t kNone = 0;  // no such child: the root is nobody's child

  Trie() : units_(257) {}
  // Of equal keys the last one counts; empty ones are left out. Values must not be negative.
  explicit Trie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  std::uint32_t child(std::uint32_t node, char byte) const {
    const std::uint32_t to = units_[node].base + static_cast<unsigned char>(byte);
    return units_[to].parent == node + 1 ? to : kNone;
  }
  std::int32_t value(std::uint32_t node) const { return units_[node].value; }  // -1: no key ends here
  // The node that a text leads to, or kNone.
  std::uint32_t walk(std::string_view text, std::uint32_t node = 0) const {
    for (const char c : text)
      if ((node = child(node, c)) == kNone) break;
    return node;
  }

 private:
  struct Unit {
    std::uint32_t base = 1, parent = 0;  // parent + 1; 0: free
    std::int32_t value = -1;
  };
  struct Builder;
  std::vector<Unit> units_;
};

}  // namespace hone::text
