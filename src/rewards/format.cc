// Whether an answer has the form that is wanted, such as reasoning between <think> and </think> before it.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/reward.h"
#include "rewards/answer_regex.h"

namespace hone::rewards {
namespace {

class Format final : public Reward {
 public:
  struct Config {
    std::string pattern = "<think>(?!.*<think>).*?</think>.*";
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("pattern", &C::pattern,
                "Regular expression (Oniguruma's) that all of an answer must match; . is any character, the end of a "
                "line, too. By default the answer begins with <think>, which comes once, and has </think> later; "
                "where the chat template has opened <think> already: (?!.*<think>).*?</think>.*")};
    }
    void validate(Problems& problems) const {
      problems.require(!pattern.empty(), "pattern", "missing");
      AnswerRegex::check(pattern, "pattern", problems);
    }
  };
  explicit Format(const Config& config)
      : whole_("\\A(?m:" + config.pattern + ")\\z", "reward format: pattern") {}

  std::vector<std::optional<double>> score(const std::vector<Answer>& answers, const RewardContext&) const override {
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) scores.push_back(whole_.is_in(answer.text) ? 1 : 0);
    return scores;
  }

 private:
  AnswerRegex whole_;
};

}  // namespace

void register_format(Registries& hone) {
  hone.rewards.add<Format>("format",
                           "1 where all of the answer matches a regular expression, 0 elsewhere; by default: reasoning "
                           "in <think> </think> comes first.");
}

}  // namespace hone::rewards
