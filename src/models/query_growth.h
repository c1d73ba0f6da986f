// What a section of rotary parameters says of queries that grow with their position, in Mistral's families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/llama_config.h"

namespace hone::models {

// The section that holds; null: it is none.
config::Node* rope_section(LlamaConfig& config);

// Taken out of the section, for it is not of rotation; path: the section's, with a dot. length: where the section says
// it.
struct SaidOfGrowth {
  double beta = 0;
  std::optional<std::int64_t> length;
};
SaidOfGrowth take_growth(config::Node& rope, const std::string& family, const std::string& path, Problems& problems);
void write_growth(const LlamaShape::QueryGrowth& growth, config::Node& rope);

}  // namespace hone::models
