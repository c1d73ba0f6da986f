// Nash-MD's answers and loss. The model's answer is the first of each pair, and the only one that is learnt.
//
// Letters: S answers.
#include "objectives/nash_md.h"

#include <ATen/ATen.h>

#include "hone/registry.h"
#include "objectives/means.h"
#include "tensor/by_document.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char *kMixtureCoef = "mixture_coef", *kMixtureReward = "mixture_reward",
                     *kMixtureComplete = "mixture_complete";

// Every second one, from the first or from the second on.
template <class T>
std::vector<T> every_second(const std::vector<T>& all, std::size_t from) {
  std::vector<T> some;
  for (std::size_t i = from; i < all.size(); i += 2) some.push_back(all[i]);
  return some;
}

}  // namespace

void NashMd::Config::validate(Problems& problems) const {
  check(problems);
  require_all(mixture_coef, 0, 1, "mixture_coef", problems);
  require_no_environment(*this, problems);
}

std::optional<std::vector<std::string>> NashMd::measures() const {
  std::vector<std::string> names = measures_of_answers();
  names.insert(names.end(), {"rewards/probabilities", "rewards/margins", "rewards/accuracies", "logps/chosen",
                             "logps/rejected", "loss/kl", "loss/score", "objective/entropy",
                             "val/model_contain_eos_token", "val/ref_contain_eos_token"});
  if (has_rewards()) names.insert(names.end(), {"rewards/chosen", "rewards/rejected"});
  return names;
}

std::vector<GivenAnswer> NashMd::answers_to(const std::vector<Asked>& asked, std::int64_t, const SeedOfAnswer& seed,
                                            const StepContext& context, Environment&) const {
  const RoleModel other = reference(context.resources);
  const Speaker model{{context.model}}, mixture{{context.model}, &other, at_epoch(mixture_coef_, context.epoch)};
  return one_of_each(model, mixture, asked, seed, context);
}

std::map<std::string, double> NashMd::step_numbers(const StepContext& context) const {
  std::map<std::string, double> numbers = OnlinePairs::step_numbers(context);
  numbers[kMixtureCoef] = at_epoch(mixture_coef_, context.epoch);
  return numbers;
}

Group NashMd::learnable(const Judged& judged) const {
  const auto all = columns_of(judged);
  std::map<std::string, std::vector<double>> columns;
  for (const auto& [name, values] : all) columns[name] = every_second(values, 0);
  columns[kMixtureComplete] = every_second(all.at(kComplete), 1);
  if (has_rewards()) columns[kMixtureReward] = every_second(all.at(kReward), 1);
  Rollout own = judged.rollout;
  own.each = 1, own.answers = every_second(own.answers, 0);
  return learnt_from(own, columns, std::vector<bool>(own.answers.size()));
}

Sums NashMd::sums(const Batch& batch) const {
  const auto known = batch.extra.find(kIsKnown);
  return {{kPairs, known == batch.extra.end() ? 0 : host::number(known->second.sum())}};
}

// Both parts by REINFORCE: how likely an answer is, times what it is worth, of which 1/2 is the mean.
LossTerms NashMd::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  const Tensor model_N = log_probs(*model.causal_lm(), output, batch, pass, nullptr);
  const Tensor mask_N = batch.weight_BT.flatten().to(model_N.scalar_type());
  const Tensor reference_N = maybe_tokens(batch, kReferenceTokens);
  const auto by_answer = [&](const Tensor& values_N) { return sums_by_document(values_N * mask_N, batch); };
  const Tensor apart_N = model_N.detach() - reference_N, model_S = by_answer(model_N);
  const Tensor preference_S = column_of(batch, kPreference), known_S = column_of(batch, kIsKnown);
  const Tensor beta = step_number(batch, kBeta), coefficient = step_number(batch, kMixtureCoef);
  const Tensor score_S = (preference_S - 0.5) * model_S;
  const Tensor loss_S = beta * by_answer(apart_N * model_N) - score_S;
  LossTerms result;
  result.terms.push_back({"loss", (loss_S * known_S).sum(), kPairs});
  const Tensor shown_S = model_S.detach(), reference_S = by_answer(reference_N), margin_S = by_answer(apart_N);
  const auto add = [&](const std::string& name, const Tensor& values_S) {
    add_mean_of_known(name, values_S, known_S, result);
  };
  add("loss/score", score_S.detach());
  add("rewards/probabilities", preference_S);
  add("loss/kl", margin_S);
  add("rewards/margins", margin_S);
  add("rewards/accuracies", margin_S.gt(0).to(margin_S.scalar_type()));
  add("logps/chosen", shown_S);
  add("logps/rejected", reference_S);
  add("objective/entropy", -shown_S);
  add_mean("val/model_contain_eos_token", column_of(batch, kComplete), result);
  add_mean("val/ref_contain_eos_token", column_of(batch, kMixtureComplete), result);
  if (has_rewards()) {
    add_mean_of_some("rewards/chosen", column_of(batch, kReward), result);
    add_mean_of_some("rewards/rejected", column_of(batch, kMixtureReward), result);
  }
  result.means.push_back({kBeta, beta, at::ones_like(beta)});
  result.means.push_back({kMixtureCoef, coefficient, at::ones_like(coefficient)});
  add_answer_means(batch, result);
  return result;
}

void register_nash_md(Registries& hone) {
  hone.objectives.add<NashMd>("nash_md",
                              "Answer prompts, and learn how likely an answer is better than one of a mixture.");
}

}  // namespace hone::objectives
