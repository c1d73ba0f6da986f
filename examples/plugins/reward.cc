// A reward: the share of an answer's characters that are digits.
#include <algorithm>
#include <cctype>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/reward.h"

namespace {

using namespace hone;

class Digits final : public Reward {
 public:
  struct Config {
    double most = 1;
    static constexpr auto fields() {
      return std::tuple{field("most", &Config::most, "What an answer of digits alone is worth.", config::at_least(0))};
    }
  };
  explicit Digits(const Config& config) : config_(config) {}

  // Nothing for an answer without characters: it is left out of the comparison.
  std::vector<std::optional<double>> score(const std::vector<Answer>& answers, const RewardContext&) const override {
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) {
      const auto digits =
          std::count_if(answer.text.begin(), answer.text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
      const auto share = [&] { return config_.most * double(digits) / double(answer.text.size()); };
      scores.push_back(answer.text.empty() ? std::nullopt : std::optional(share()));
    }
    return scores;
  }

 private:
  Config config_;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.rewards.add<Digits>("digits", "Answers that are numbers.");
}
