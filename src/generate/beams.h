// Answers by beams: several are followed side by side, and the one whose probability is highest for its length is
// given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hone/generate.h"

namespace hone::generate {

// What a search by beams looks at besides the prompt.
struct BeamSearch {
  const CausalLm& model;
  const Tokenizer& tokenizer;
  const std::string& adapter;
  const GenerateConfig& config;
};

// Error(config): what is not to be had together with beams.
void check_beams(const GenerateConfig& config);

// The answer to one prompt, of `most` tokens at most. Under no-grad. REQUIRES: most > 0.
Generated answer_by_beams(const BeamSearch& search, std::span<const std::int32_t> prompt, std::int64_t most,
                          GenerateStats& stats);

}  // namespace hone::generate
