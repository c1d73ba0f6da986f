// The filters keep a list of candidates, likeliest first; each shortens it as transformers' processor of that name does.
#include "generate/sampling.h"

#include <algorithm>
#include <cmath>

namespace hone::generate {
namespace {

// Equal ones: the higher id first, as in transformers, whose top-p cuts an ascending sort.
bool likelier(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id > b.id;
}

}  // namespace

Sampler::Sampler(const GenerateConfig& config, std::int64_t vocab_size)
    : config_(config),
      seen_(config.repetition_penalty != 1.0 ? static_cast<std::size_t>(vocab_size) : 0) {}

void Sampler::penalise(std::span<float> logits) const {
  const auto penalty = static_cast<float>(config_.repetition_penalty);
  for (std::size_t id = 0; id < seen_.size(); ++id)
    if (seen_[id]) logits[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
}

// Leaves logits (scaled by the temperature) in `probability`. Ties with the k-th likeliest are all kept.
void Sampler::keep_top_k(std::span<const float> logits) {
  kept_.clear();
  const auto temperature = static_cast<float>(config_.temperature);
  for (std::size_t id = 0; id < logits.size(); ++id)
    kept_.push_back({static_cast<std::int32_t>(id), static_cast<double>(logits[id] / temperature)});
  const auto k = static_cast<std::size_t>(config_.top_k);
  if (k > 0 && k < kept_.size()) {
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(k - 1), kept_.end(), likelier);
    const double lowest = kept_[k - 1].probability;
    std::erase_if(kept_, [&](const Candidate& c) { return c.probability < lowest; });
  }
}

void Sampler::normalise() {
  double sum = 0;
  for (const Candidate& c : kept_) sum += c.probability;
  for (Candidate& c : kept_) c.probability /= sum;
}

// Keeps the shortest head of the sorted list whose probabilities reach top_p.
void Sampler::keep_top_p() {
  if (config_.top_p >= 1.0) return;
  double before = 0;
  std::size_t count = 0;
  while (count < kept_.size() && (count == 0 || before < config_.top_p)) before += kept_[count++].probability;
  kept_.resize(count);
  normalise();
}

void Sampler::keep_min_p() {
  if (config_.min_p <= 0) return;
  const double lowest = config_.min_p * kept_.front().probability;
  std::erase_if(kept_, [&](const Candidate& c) { return c.probability < lowest; });
  normalise();
}

const std::vector<Candidate>& Sampler::distribution(std::span<float> logits) {
  penalise(logits);
  keep_top_k(logits);
  double highest = -INFINITY;
  for (const Candidate& c : kept_) highest = std::max(highest, c.probability);
  for (Candidate& c : kept_) c.probability = std::exp(c.probability - highest);
  normalise();
  std::sort(kept_.begin(), kept_.end(), likelier);
  keep_top_p();
  keep_min_p();
  return kept_;
}

std::int32_t Sampler::choose(std::span<float> logits, double uniform) {
  if (config_.temperature == 0) {
    penalise(logits);
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  double sum = 0;
  for (const Candidate& c : distribution(logits))
    if ((sum += c.probability) > uniform) return c.id;
  return kept_.back().id;  // rounding left the sum a hair below uniform
}

}  // namespace hone::generate
