// Repetition penalty (Yeo et al., 2025, arXiv:2502.03373, appendix C.2): the share of an answer's n-grams of tokens
// that it has had before.
#include <algorithm>
#include <span>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/reward.h"

namespace hone::rewards {
namespace {

// Sorting places instead of n-grams needs no copies of them.
std::int64_t count_different(const std::vector<std::int32_t>& ids, std::size_t n) {
  std::vector<const std::int32_t*> grams;
  for (std::size_t i = 0; i + n <= ids.size(); ++i) grams.push_back(ids.data() + i);
  const auto of = [&](const std::int32_t* begin) { return std::span(begin, n); };
  std::sort(grams.begin(), grams.end(), [&](const auto* a, const auto* b) {
    return std::ranges::lexicographical_compare(of(a), of(b));
  });
  const auto same = [&](const auto* a, const auto* b) { return std::ranges::equal(of(a), of(b)); };
  return std::unique(grams.begin(), grams.end(), same) - grams.begin();
}

std::vector<std::int32_t> said_in(const Answer& answer) {
  if (answer.heard.empty()) return answer.ids;
  std::vector<std::int32_t> said;
  for (std::size_t i = 0; i < answer.ids.size(); ++i)
    if (!answer.heard[i]) said.push_back(answer.ids[i]);
  return said;
}

class Repetition final : public Reward {
 public:
  struct Config {
    std::int64_t ngram_size = 3;
    double max_penalty = -1;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("ngram_size", &C::ngram_size,
                "Tokens in a row that count as repeated; a shorter answer repeats nothing. Small ones also punish "
                "usual phrases.",
                at_least(1)),
          field("max_penalty", &C::max_penalty,
                "Reward of an answer that is repetition alone; one without any has 0.", {.high = 0})};
    }
  };
  explicit Repetition(const Config& config) : config_(config) {}

  std::vector<std::optional<double>> score(const std::vector<Answer>& answers, const RewardContext&) const override {
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) scores.push_back(score_of(said_in(answer)));
    return scores;
  }

 private:
  double score_of(const std::vector<std::int32_t>& ids) const {
    const std::int64_t all = std::ssize(ids) - config_.ngram_size + 1;
    if (all < 1) return 0;
    const std::int64_t repeated = all - count_different(ids, static_cast<std::size_t>(config_.ngram_size));
    return repeated == 0 ? 0 : static_cast<double>(repeated) / static_cast<double>(all) * config_.max_penalty;
  }
  Config config_;
};

}  // namespace

void register_repetition(Registries& hone) {
  hone.rewards.add<Repetition>("repetition", "0, and down to max_penalty for answers that repeat themselves.");
}

}  // namespace hone::rewards
