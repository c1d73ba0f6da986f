// What is known of a grammar before any text is read: found in time that grows with its size, as requests bring it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "text/form/grammar.h"

namespace hone::text {

struct GrammarFacts {
  static constexpr std::int32_t kNever = 1 << 20;
  std::vector<bool> is_exit;          // of nodes: a rule ends there
  std::vector<bool> nullable;         // of rules: the text may be empty
  std::vector<std::int32_t> heights;  // rules in rules that a text needs at least from a node on; kNever: no end
  std::vector<std::int32_t> order;    // rules, those that begin with others before them
  std::vector<std::int32_t> turn;     // where each rule is in that
};

// usable: bytes that can be written; null: all. deepest: heights beyond it count as kNever. Error(config): a rule
// begins with itself, and would call itself without end.
GrammarFacts facts_of(const Grammar& grammar, const std::array<bool, 256>* usable, std::int32_t deepest);

}  // namespace hone::text
