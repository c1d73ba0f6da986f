// From rewards of tokens to advantages.
#include "objectives/gae.h"

#include <algorithm>
#include <cmath>

#include "objectives/advantages.h"

namespace hone::objectives {
namespace {

constexpr double kLeastVariance = 1e-8;  // added to variances before anything is divided by their root, as TRL does

using Values = std::vector<double>;

// Those of all answers are scaled alike.
void whiten(std::vector<Values>& all, bool keeps_mean, const World& world) {
  Values flat;
  for (const Values& one : all) flat.insert(flat.end(), one.begin(), one.end());
  const Moments moments = moments_over(world, {{"", flat}}).at("");
  if (moments.count == 0) return;
  const double variance = moments.count < 2 ? 0 : moments.squares / (moments.count - 1);
  for (Values& one : all)
    for (double& value : one)
      value = (value - moments.mean) / std::sqrt(variance + kLeastVariance) + (keeps_mean ? moments.mean : 0);
}

// Of each value's place: what the token there is worth.
Values rewards_of(const Trajectory& answer, const GaeOptions& options) {
  Values rewards(answer.values.size());
  for (std::size_t t = 0; t < answer.log_probs.size(); ++t)
    rewards[t] = -options.kl_coef * kl_of(options.kl_estimator, answer.log_probs[t], answer.reference[t]);
  if (!rewards.empty()) rewards.back() += answer.score;
  return rewards;
}

// Of each value's place; beyond the last one nothing is expected.
Values advantages_of(const Values& rewards, const Values& values, const GaeOptions& options) {
  Values advantages(values.size());
  double later = 0, next = 0;
  for (std::size_t t = values.size(); t-- > 0;) {
    later = rewards[t] + options.gamma * next - values[t] + options.gamma * options.lam * later;
    advantages[t] = later;
    next = values[t];
  }
  return advantages;
}

}  // namespace

double kl_of(KlEstimator estimator, double log_prob, double reference) {
  const double ratio = reference - log_prob;
  return estimator == KlEstimator::k1 ? -ratio : std::exp(ratio) - 1 - ratio;
}

std::vector<Estimate> estimates_of(const std::vector<Trajectory>& answers, const GaeOptions& options,
                                   const World& world) {
  std::vector<Values> rewards, advantages;
  for (const Trajectory& answer : answers) rewards.push_back(rewards_of(answer, options));
  if (options.whiten_rewards) whiten(rewards, /*keeps_mean=*/true, world);
  std::vector<Estimate> made(answers.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Values own = advantages_of(rewards[i], answers[i].values, options);
    for (std::size_t t = 0; t < own.size(); ++t) made[i].returns.push_back(own[t] + answers[i].values[t]);
    own.resize(answers[i].log_probs.size());
    advantages.push_back(std::move(own));
  }
  whiten(advantages, /*keeps_mean=*/false, world);
  for (std::size_t i = 0; i < answers.size(); ++i) made[i].advantages = std::move(advantages[i]);
  return made;
}

}  // namespace hone::objectives
