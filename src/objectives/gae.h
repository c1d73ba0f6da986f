// Generalized advantage estimation (Schulman et al., 2015, arXiv:1506.02438) of answers whose tokens are actions: each
// is worth how far it takes the model from a reference, and the last one what the answer is worth.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/config.h"
#include "hone/world.h"

namespace hone::objectives {

// Of one token how far the model is from the reference (Schulman, 2020): k1, the difference of log-probabilities; k3,
// which is never below 0 and varies less.
enum class KlEstimator { k1, k3 };

struct GaeOptions {
  double kl_coef = 0.05, gamma = 1, lam = 0.95;
  KlEstimator kl_estimator = KlEstimator::k1;
  bool whiten_rewards = false;
};

// An answer, token by token as the model said them. values: what the answer is expected to be worth before each of
// them, and, where it has ended before it had to, once more behind the last one: there its score is given.
struct Trajectory {
  std::vector<double> log_probs = {}, reference = {}, values = {};
  double score = 0;
};
// Of the tokens; of the values.
struct Estimate {
  std::vector<double> advantages = {}, returns = {};
};

double kl_of(KlEstimator estimator, double log_prob, double reference);
// Advantages are scaled to mean 0 and variance 1 over all ranks' tokens; with whiten_rewards rewards are, too, before
// anything else, but keep their mean.
std::vector<Estimate> estimates_of(const std::vector<Trajectory>& answers, const GaeOptions& options,
                                   const World& world);

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::KlEstimator> =
    std::to_array<std::pair<hone::objectives::KlEstimator, std::string_view>>(
        {{hone::objectives::KlEstimator::k1, "k1"}, {hone::objectives::KlEstimator::k3, "k3"}});
