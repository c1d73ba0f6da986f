// From logits to the next token: repetition penalty, temperature, top-k, top-p, min-p, in transformers' order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hone/generate.h"

namespace hone::generate {

// A token that may be sampled, with its probability after all filters.
struct Candidate {
  std::int32_t id;
  double probability;
};

// What one row needs while it chooses; reused from step to step, so that nothing is allocated per token.
class Sampler {
 public:
  Sampler(const GenerateConfig& config, std::int64_t vocab_size);

  // Tokens already in the text (prompt and answer): what the repetition penalty looks at.
  void seen(std::int32_t id) {
    if (config_.repetition_penalty != 1.0) seen_[static_cast<std::size_t>(id)] = true;
  }
  // The next token for logits [vocab_size]; `uniform` in [0, 1) decides, in the order of distribution(), or of ids
  // where no token is left out. Ties go to the lowest id. Changes `logits`. -1 where a logit is infinite or not a
  // number.
  std::int32_t choose(std::span<float> logits, double uniform);
  // The same from a row's highest logits alone, highest first, with their ids, where that is enough. No value: others
  // may be as high as the lowest that counts, so that all are needed. REQUIRES: all logits are finite, and there are at
  // least highest_needed() of them.
  std::optional<std::int32_t> choose_among(std::span<const float> logits, std::span<const std::int64_t> ids,
                                           double uniform);
  std::int64_t highest_needed() const;  // 0: choose_among() does not go by these settings
  // The distribution that choose() draws from, likeliest first. REQUIRES: temperature > 0. Changes `logits`.
  const std::vector<Candidate>& distribution(std::span<float> logits);

 private:
  void penalise(std::span<float> logits) const;
  bool takes_likeliest(float highest) const;
  std::optional<std::int32_t> lowest_of_highest(std::span<const float> logits, std::span<const std::int64_t> ids) const;
  void filter(std::span<float> logits);
  void weigh();
  std::int32_t draw(double uniform);
  float kth_largest(std::span<const float> values, std::size_t k);
  void keep_top_k(std::span<float> logits);
  void sort_more();
  void keep_top_p();
  void keep_min_p();
  void normalise();

  GenerateConfig config_;
  std::int64_t vocab_size_;
  std::vector<bool> seen_;
  std::vector<Candidate> kept_;
  std::size_t sorted_ = 0;  // the first ones of kept_ that are in order
  std::vector<float> largest_;
};

}  // namespace hone::generate
