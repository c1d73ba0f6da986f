// The data behind normal forms: decompositions, canonical classes, composition, and which characters a form may change.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/parts/flat_map.h"

namespace hone::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Immutable; made on first use.
class NormalTables {
 public:
  static const NormalTables& get();

  // The full decomposition, or nothing when the character is its own (Hangul syllables among them).
  std::span<const char32_t> decomposition(char32_t c, bool compatibility) const {
    std::uint64_t found = compatibility ? compatible_.find(c) : FlatMap::kNone;
    if (found == FlatMap::kNone) found = canonical_.find(c);
    if (found == FlatMap::kNone) return {};
    return {parts_.data() + (found >> 8), static_cast<std::size_t>(found & 0xFF)};
  }
  // Canonical combining class; 0: a starter.
  int order(char32_t c) const { return c < orders_.size() ? orders_[c] : 0; }
  // What two characters compose to; 0: they do not (Hangul is not in here).
  char32_t composite(char32_t a, char32_t b) const {
    const std::uint64_t found = composites_.find(static_cast<std::uint64_t>(a) << 32 | b);
    return found == FlatMap::kNone ? 0 : static_cast<char32_t>(found);
  }
  // bit: 1 << NormalForm. Whether the form may change or move the character.
  bool may_change(char32_t c, std::uint8_t bit) const { return c < unsafe_.size() && (unsafe_[c] & bit); }

 private:
  NormalTables();
  void read_orders();
  void read_decompositions();
  void add_composite(char32_t c, std::span<const char32_t> parts);
  void mark(char32_t c, std::uint8_t bits);
  std::vector<char32_t> parts_;
  FlatMap canonical_, compatible_, composites_;
  std::vector<std::uint8_t> orders_, unsafe_;
};

}  // namespace hone::text
