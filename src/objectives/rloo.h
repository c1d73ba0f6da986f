// REINFORCE with a baseline of the other answers (Ahmadian et al., 2024, arXiv:2402.14740): a whole answer is one
// action, worth its reward less how far it is from a reference, and compared with the mean of the others.
#pragma once

#include <tuple>
#include <vector>

#include "objectives/policy_objective.h"

namespace hone::objectives {

class Rloo : public PolicyObjective {
 public:
  struct Config : PolicyOptions {
    using Base = PolicyOptions;
    double beta = 0.05;
    bool normalize_advantages = false;
    std::vector<double> reward_clip_range;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          PolicyOptions::fields(),
          std::tuple{field("beta", &C::beta,
                           "How much of an answer's worth its distance from a reference takes away; 0 = none, and "
                           "there is no reference.",
                           config::at_least(0)),
                     field("normalize_advantages", &C::normalize_advantages,
                           "Divide what answers are better by through its standard deviation over the step."),
                     field("reward_clip_range", &C::reward_clip_range,
                           "Two numbers, the least and the most that an answer's reward counts for; default: no "
                           "limits.")});
    }
    void validate(Problems& problems) const;
  };
  explicit Rloo(const Config& config) : PolicyObjective("rloo", config, config.beta), config_(config) {}

 protected:
  bool judges_by_divergence() const override { return config_.beta > 0; }
  bool always_knows_old() const override { return config_.beta > 0; }
  std::vector<double> advantages(const Judged& judged, const World& world) const override;
  void add_terms(const Tokens& tokens, LossTerms& result) const override;

 private:
  const Config config_;
};

}  // namespace hone::objectives
