// Right or wrong: an answer is compared with what its record has.
#include "hone/registry.h"
#include "rewards/answer_check.h"

namespace hone::rewards {
namespace {

class Accuracy final : public Reward {
 public:
  struct Config : AnswerCheckOptions {
    using Base = AnswerCheckOptions;
    double right = 1, wrong = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(Base::fields(), std::tuple{field("right", &C::right, "Reward of a right answer."),
                                                       field("wrong", &C::wrong, "Reward of any other.")});
    }
  };
  explicit Accuracy(const Config& config) : config_(config), check_(config, "reward accuracy") {}

  bool needs_reference() const override { return true; }
  std::vector<std::optional<double>> score(const std::vector<Answer>& answers, const RewardContext&) const override {
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) {
      const auto is_right = check_.is_right(answer);
      scores.push_back(is_right ? std::optional(*is_right ? config_.right : config_.wrong) : std::nullopt);
    }
    return scores;
  }

 private:
  Config config_;
  AnswerCheck check_;
};

}  // namespace

void register_accuracy(Registries& hone) {
  hone.rewards.add<Accuracy>("accuracy",
                             "1 where the answer is the record's, 0 elsewhere: its last \\boxed{}, else what is behind "
                             "its last ####, else all of it, compared as numbers where both are numbers, else as "
                             "texts. No computer algebra: x(x+1) is not x^2+x.");
}

}  // namespace hone::rewards
