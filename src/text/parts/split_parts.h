// Cutting a piece where a pattern matches: the five behaviours of Split and its relatives.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/parts/aligned.h"

namespace hone::text {

// A part of a piece that the pattern matched, or what lies between two matches.
struct Part {
  std::uint32_t begin, end;
  bool match;
};

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// `behavior` of a component: "Isolated"...
Behavior get_behavior(const nlohmann::json& config, const std::string& where, std::optional<std::string> fallback = {});

// Pushes what becomes of the parts.
void cut(const std::vector<Part>& parts, Behavior behavior, std::vector<Piece>& out);

// Adds a match and, before it, what lies between it and `done`.
inline void add_match(std::vector<Part>& parts, std::uint32_t& done, std::uint32_t begin, std::uint32_t end) {
  if (done != begin) parts.push_back({done, begin, false});
  parts.push_back({begin, end, true});
  done = end;
}

// Parts of a piece by a predicate on characters: each character that holds is a match of its own.
template <class Holds>
void parts_by_character(std::string_view text, const Piece& piece, Holds&& holds, std::vector<Part>& parts) {
  parts.clear();
  std::uint32_t done = piece.begin;
  for (std::size_t at = piece.begin; at < piece.end;) {
    const auto begin = static_cast<std::uint32_t>(at);
    if (holds(next_code_point(text, at))) add_match(parts, done, begin, static_cast<std::uint32_t>(at));
  }
  if (done != piece.end) parts.push_back({done, piece.end, false});
}

}  // namespace hone::text
