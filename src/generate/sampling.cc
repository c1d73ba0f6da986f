// The filters keep a list of candidates, likeliest first; each shortens it as transformers' processor of that name
// does.
#include "generate/sampling.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/argmax.h"
#include "ops/finite.h"

namespace hone::generate {
namespace {

// Equal ones: the higher id first, as in transformers, whose top-p cuts an ascending sort.
bool likelier(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id > b.id;
}

}  // namespace

Sampler::Sampler(const GenerateConfig& config, std::int64_t vocab_size)
    : config_(config),
      vocab_size_(vocab_size),
      seen_(config.repetition_penalty != 1.0 ? static_cast<std::size_t>(vocab_size) : 0) {}

void Sampler::penalise(std::span<float> logits) const {
  const auto penalty = static_cast<float>(config_.repetition_penalty);
  for (std::size_t id = 0; id < seen_.size(); ++id)
    if (seen_[id]) logits[id] = logits[id] < 0 ? logits[id] * penalty : logits[id] / penalty;
}

// The k-th largest value (a heap of the k largest so far, the least of them on top: most values are passed over).
float Sampler::kth_largest(std::span<const float> values, std::size_t k) {
  largest_.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(k));
  std::make_heap(largest_.begin(), largest_.end(), std::greater<>());
  for (const float value : values.subspan(k)) {
    if (!(value > largest_.front())) continue;
    std::pop_heap(largest_.begin(), largest_.end(), std::greater<>());
    largest_.back() = value;
    std::push_heap(largest_.begin(), largest_.end(), std::greater<>());
  }
  return largest_.front();
}

// Temperatures so near to nothing that the likeliest logit divided by one of them is no number: their limit.
bool Sampler::takes_likeliest(float highest) const {
  return config_.temperature == 0 || !std::isfinite(highest / static_cast<float>(config_.temperature));
}

// Leaves logits, scaled by the temperature, in `probability`. Ties with the k-th likeliest are all kept.
void Sampler::keep_top_k(std::span<float> logits) {
  const auto temperature = static_cast<float>(config_.temperature);
  for (float& logit : logits) logit /= temperature;
  const auto k = static_cast<std::size_t>(config_.top_k);
  const bool all = k == 0 || k >= logits.size();
  const float lowest = all ? 0 : kth_largest(logits, k);
  kept_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (all || !(logits[id] < lowest)) kept_.push_back({static_cast<std::int32_t>(id), logits[id]});
}

// Sorts some more of kept_, likeliest first: rarely is much of it looked at.
void Sampler::sort_more() {
  const std::size_t end = std::min(kept_.size(), std::max<std::size_t>(64, 4 * sorted_));
  const auto from = kept_.begin() + static_cast<std::ptrdiff_t>(sorted_),
             to = kept_.begin() + static_cast<std::ptrdiff_t>(end);
  if (to != kept_.end()) std::nth_element(from, to, kept_.end(), likelier);
  std::sort(from, to, likelier);
  sorted_ = end;
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
  while (count < kept_.size() && (count == 0 || before < config_.top_p)) {
    if (count == sorted_) sort_more();
    before += kept_[count++].probability;
  }
  kept_.resize(count);
  sorted_ = count;
  normalise();
}

void Sampler::keep_min_p() {
  if (config_.min_p <= 0) return;
  double highest = 0;
  for (const Candidate& c : kept_) highest = std::max(highest, c.probability);
  const double lowest = config_.min_p * highest;
  std::erase_if(kept_, [&](const Candidate& c) { return c.probability < lowest; });
  std::sort(kept_.begin(), kept_.end(), likelier);
  sorted_ = kept_.size();
  normalise();
}

// The distribution after all filters; the first sorted_ of kept_ are in order.
void Sampler::filter(std::span<float> logits) {
  penalise(logits);
  const auto likeliest = static_cast<std::int32_t>(ops::argmax(logits));
  if (takes_likeliest(logits[static_cast<std::size_t>(likeliest)])) {
    kept_.assign(1, {likeliest, 1});
    sorted_ = 1;
    return;
  }
  keep_top_k(logits);
  weigh();
}

// From logits in kept_ to what is left of the distribution.
void Sampler::weigh() {
  double highest = -INFINITY;
  for (const Candidate& c : kept_) highest = std::max(highest, c.probability);
  at::parallel_for(0, std::ssize(kept_), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) kept_[i].probability = std::exp(kept_[i].probability - highest);
  });
  normalise();
  sorted_ = 0;
  keep_top_p();
  keep_min_p();
}

const std::vector<Candidate>& Sampler::distribution(std::span<float> logits) {
  filter(logits);
  while (sorted_ < kept_.size()) sort_more();
  return kept_;
}

std::int32_t Sampler::choose(std::span<float> logits, double uniform) {
  if (!ops::all_finite(logits)) return -1;
  filter(logits);
  return draw(uniform);
}

std::int64_t Sampler::highest_needed() const {
  const bool enough = config_.temperature > 0 && config_.repetition_penalty == 1 && config_.top_k < vocab_size_;
  return enough ? config_.top_k : 0;
}

std::optional<std::int32_t> Sampler::choose_among(std::span<const float> logits, std::span<const std::int64_t> ids,
                                                  double uniform) {
  const auto temperature = static_cast<float>(config_.temperature);
  if (takes_likeliest(logits.front())) return lowest_of_highest(logits, ids);
  const float lowest = logits[static_cast<std::size_t>(config_.top_k) - 1] / temperature;
  if (std::ssize(logits) < vocab_size_ && !(logits.back() / temperature < lowest)) return std::nullopt;
  kept_.clear();
  for (std::size_t i = 0; i < logits.size() && !(logits[i] / temperature < lowest); ++i)
    kept_.push_back({static_cast<std::int32_t>(ids[i]), logits[i] / temperature});
  std::sort(kept_.begin(), kept_.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  weigh();
  return draw(uniform);
}

// No value where logits that were not given may be as high.
std::optional<std::int32_t> Sampler::lowest_of_highest(std::span<const float> logits,
                                                       std::span<const std::int64_t> ids) const {
  if (std::ssize(logits) < vocab_size_ && logits.back() == logits.front()) return std::nullopt;
  std::int64_t lowest = ids.front();
  for (std::size_t i = 1; i < logits.size() && logits[i] == logits.front(); ++i) lowest = std::min(lowest, ids[i]);
  return static_cast<std::int32_t>(lowest);
}

// Likeliest first, so that little is looked at; of the whole vocabulary by ids, since sorting a flat distribution costs
// more than all else.
std::int32_t Sampler::draw(double uniform) {
  const bool by_ids = sorted_ == 0 && std::ssize(kept_) == vocab_size_;
  double sum = 0;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (i == sorted_ && !by_ids) sort_more();
    if ((sum += kept_[i].probability) > uniform) return kept_[i].id;
  }
  return kept_.back().id;  // rounding left the sum a hair below uniform
}

}  // namespace hone::generate
