// What the environment says that an answer is worth that was spoken with it.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/reward.h"

namespace hone::rewards {
namespace {

class Outcome final : public Reward {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit Outcome(const Config&) {}

  bool needs_environment() const override { return true; }
  std::vector<std::optional<double>> score(const std::vector<Answer>& answers, const RewardContext&) const override {
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) scores.push_back(answer.outcome);
    return scores;
  }
};

}  // namespace

void register_environment(Registries& hone) {
  hone.rewards.add<Outcome>("environment",
                            "The \"reward\" that objective.environment gives an answer of several turns when it is "
                            "done; nothing where it gives none.");
}

}  // namespace hone::rewards
