// Answers by beams: several are followed side by side, and the one whose probability is highest for its length is
// given.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hone/generate.h"

namespace hone::generate {

// What a search by beams looks at besides prompts.
struct BeamSearch {
  const CausalLm& model;
  const Tokenizer& tokenizer;
  const std::string& adapter;
  const GenerateConfig& config;
};

// Error(config): what is not to be had together with beams.
void check_beams(const GenerateConfig& config);

// A prompt, and the most tokens of its answer.
struct AskedOfBeams {
  std::span<const std::int32_t> prompt;
  std::int64_t most = 0;  // REQUIRES: > 0
};

// The answers to some prompts, whose beams are computed together. Each depends on its own prompt alone, but for how
// sums are rounded. Under no-grad.
class Beams {
 public:
  // `number`: of the prompt among those that are asked.
  using Finished = std::function<void(std::size_t number, const Generated& answer)>;
  explicit Beams(const BeamSearch& search) : search_(search) {}
  // each_step: called with a prompt's number for each token that its beams get.
  void answer(const std::vector<AskedOfBeams>& asked, const std::function<void(std::size_t number)>& each_step,
              const Finished& finished, GenerateStats& stats) const;

 private:
  Generated generated(std::span<const std::int32_t> prompt, std::vector<std::int32_t> ids, bool ended) const;
  const BeamSearch search_;
};

}  // namespace hone::generate
