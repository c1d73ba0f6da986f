// XPO's answers and loss. The model's answer is the first of each pair.
#include "objectives/xpo.h"

#include <ATen/ATen.h>

#include <limits>

#include "hone/registry.h"
#include "objectives/means.h"

namespace hone::objectives {
namespace {

constexpr const char* kAlpha = "alpha";

}  // namespace

void Xpo::Config::validate(Problems& problems) const {
  OnlineDpo::Config::validate(problems);
  require_all(alpha, 0, std::numeric_limits<double>::max(), "alpha", problems);
  require_no_environment(*this, problems);
}

std::vector<GivenAnswer> Xpo::answers_to(const std::vector<Asked>& asked, std::int64_t, const SeedOfAnswer& seed,
                                         const StepContext& context, Environment&) const {
  return one_of_each({{context.model}}, {reference(context.resources)}, asked, seed, context);
}

std::map<std::string, double> Xpo::step_numbers(const StepContext& context) const {
  std::map<std::string, double> numbers = OnlineDpo::step_numbers(context);
  numbers[kAlpha] = at_epoch(alpha_, context.epoch);
  return numbers;
}

void Xpo::add_losses(const BatchPairs& pairs, const Tensor& dpo_P, LossTerms& result) const {
  const Tensor xpo_P = step_number(pairs.batch, kAlpha) * seconds(pairs.likelihoods.model_S);
  result.terms.push_back({"loss/dpo", (dpo_P * pairs.known_P).sum(), kPairs});
  result.terms.push_back({"loss/xpo", (xpo_P * pairs.known_P).sum(), kPairs});
}

void Xpo::tell_worth(const BatchPairs& pairs, LossTerms& result) const {
  const Tensor complete_S = column_of(pairs.batch, kComplete), alpha = step_number(pairs.batch, kAlpha);
  add_mean("val/model_contain_eos_token", firsts(complete_S), result);
  add_mean("val/ref_contain_eos_token", seconds(complete_S), result);
  result.means.push_back({kAlpha, alpha, at::ones_like(alpha)});
  if (!has_rewards()) return;
  const Tensor reward_S = column_of(pairs.batch, kReward);
  add_mean_of_some("objective/model_scores", firsts(reward_S), result);
  add_mean_of_some("objective/ref_scores", seconds(reward_S), result);
  add_mean_of_some("objective/scores_margin", firsts(reward_S) - seconds(reward_S), result);
}

std::vector<std::string> Xpo::further_measures() const {
  std::vector<std::string> names{"val/model_contain_eos_token", "val/ref_contain_eos_token"};
  if (has_rewards())
    names.insert(names.end(), {"objective/model_scores", "objective/ref_scores", "objective/scores_margin"});
  return names;
}

void register_xpo(Registries& hone) {
  hone.objectives.add<Xpo>("xpo",
                           "Prefer answers as online_dpo does, of the model's and the reference's, and explore.");
}

}  // namespace hone::objectives
