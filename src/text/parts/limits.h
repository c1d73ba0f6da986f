// The `truncation` and `padding` sections of tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "text/parts/draft.h"

namespace hone::text {

struct Truncation {
  enum class Which { longest, first, second };
  std::size_t max_length = 0, stride = 0;
  Which which = Which::longest;
  bool from_left = false;

  // Cuts the parts (one or two) down to max_length less `added` entries in all. Throws Error when that cannot be.
  void apply(std::vector<Draft>& parts, std::size_t added) const;
};

// Takes entries from the ends of the parts (from_left: from their starts), of the longer one first, until `most` less
// `added` are left in all; returns how many it took. Throws Error(config) when that leaves no room.
std::int64_t shorten(std::vector<Draft>& parts, std::size_t most, std::size_t added, bool from_left);

struct Padding {
  std::optional<std::size_t> length;  // nothing: to the longest of the batch
  std::size_t multiple = 0;           // 0: any length
  bool at_left = false;
  Draft::Entry entry;

  void apply(std::vector<Draft>& batch) const;
};

// null gives nothing. `where` begins every message: "tokenizer.json: truncation".
std::optional<Truncation> read_truncation(const nlohmann::json& config, const std::string& where);
std::optional<Padding> read_padding(const nlohmann::json& config, const std::string& where);

}  // namespace hone::text
