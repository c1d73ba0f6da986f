// Right or wrong, weighed by length along a cosine (Yeo et al., 2025, arXiv:2502.03373, appendix C.1): a right answer
// is worth the more the shorter it is, a wrong one the more the longer it is.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "hone/registry.h"
#include "rewards/answer_check.h"

namespace hone::rewards {
namespace {

class Cosine final : public Reward {
 public:
  struct Config : AnswerCheckOptions {
    using Base = AnswerCheckOptions;
    std::optional<std::int64_t> max_len;
    double min_value_wrong = -1, max_value_wrong = -0.5, min_value_correct = 0.5, max_value_correct = 1;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{field("max_len", &C::max_len,
                           "Tokens of an answer from which on it is as long as can be; default: the most that answers "
                           "of this run may have.",
                           at_least(1)),
                     field("min_value_wrong", &C::min_value_wrong, "Reward of a wrong answer of no length."),
                     field("max_value_wrong", &C::max_value_wrong, "Reward of a wrong answer of max_len tokens."),
                     field("min_value_correct", &C::min_value_correct, "Reward of a right answer of max_len tokens."),
                     field("max_value_correct", &C::max_value_correct, "Reward of a right answer of no length.")});
    }
  };
  explicit Cosine(const Config& config) : config_(config), check_(config, "reward cosine") {}

  bool needs_reference() const override { return true; }
  std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                           const RewardContext& context) const override {
    const auto longest = static_cast<double>(config_.max_len.value_or(context.longest));
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) {
      std::optional<double> score;
      if (const auto is_right = check_.is_right(answer))
        score = worth(*is_right, std::min(static_cast<double>(answer.ids.size()) / longest, 1.0));
      scores.push_back(score);
    }
    return scores;
  }

 private:
  double worth(bool is_right, double share) const {
    const double at_end = is_right ? config_.min_value_correct : config_.max_value_wrong;
    const double at_start = is_right ? config_.max_value_correct : config_.min_value_wrong;
    return at_end + 0.5 * (at_start - at_end) * (1 + std::cos(share * std::numbers::pi));
  }
  Config config_;
  AnswerCheck check_;
};

}  // namespace

void register_cosine(Registries& hone) {
  hone.rewards.add<Cosine>("cosine",
                           "As accuracy, weighed by length: right answers are worth more the shorter they are, wrong "
                           "ones cost more the shorter they are.");
}

}  // namespace hone::rewards
