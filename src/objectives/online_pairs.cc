// Pairs of answers that are made as a model learns.
#include "objectives/online_pairs.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/spans.h"
#include "hone/layers.h"
#include "hone/world.h"
#include "tensor/by_document.h"
#include "tensor/host.h"

namespace hone::objectives {

void OnlinePairOptions::check(Problems& problems) const {
  JudgingOptions::check(problems);
  problems.require(rewards.empty() != !judge.is_there(), "rewards",
                   "got both rewards and a judge's command, or none of them; expected one of the two, as in rewards: "
                   "[{type: accuracy}] or judge: {command: \"python3 judge.py\"}");
  problems.require(!missing_eos_penalty || !judge.is_there(), "missing_eos_penalty",
                   "not with a judge, who is told which answers are complete");
  require_all(beta, 0, std::numeric_limits<double>::max(), "beta", problems);
}

AnswerSettings OnlinePairOptions::settings(std::string name) const {
  return {.name = std::move(name),
          .each = 2,
          .each_eval = 2,
          .reference = reference,
          .missing_eos_penalty = missing_eos_penalty};
}

double at_epoch(const std::vector<double>& values, double epoch) {
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::clamp(std::floor(epoch), 0.0, last))];
}

void require_no_environment(const OnlinePairOptions& options, Problems& problems) {
  problems.require(options.environment.command.empty(), "environment",
                   "not with this objective, of whose answers others give one of two; online_dpo has it");
}

void require_all(const std::vector<double>& values, double low, double high, const char* option, Problems& problems) {
  problems.require(!values.empty(), option, "got none, expected at least one number");
  problems.require(
      std::all_of(values.begin(), values.end(), [&](double value) { return value >= low && value <= high; }), option,
      high < 1e9 ? fmt::format("expected numbers from {:g} to {:g}", low, high)
                 : fmt::format("expected numbers of at least {:g}", low));
}

Tensor step_number(const Batch& batch, const char* name) {
  const auto found = batch.extra.find(name);
  if (found != batch.extra.end()) return found->second;
  HONE_ASSERT(batch.ids_BT.is_meta());
  return at::zeros({}, batch.ids_BT.options().dtype(at::kDouble));
}

OnlinePairs::OnlinePairs(const std::string& name, OnlinePairOptions options)
    : AnswerObjective(options.settings(name), options), options_(std::move(options)) {}

std::map<std::string, std::vector<double>> OnlinePairs::preferences(const Judged& judged,
                                                                    const StepContext& context) const {
  std::vector<double> told;
  if (options_.judge.is_there()) told = judged_pairs(options_.judge, judged.rollout, context.step);
  std::map<std::string, std::vector<double>> columns;
  for (std::size_t i = 0; i + 1 < judged.rollout.answers.size(); i += 2) {
    const double apart = told.empty() ? judged.sums[i] - judged.sums[i + 1] : 0;
    const double preference = told.empty() ? 1 / (1 + std::exp(-apart)) : told[i / 2];
    const bool known = !std::isnan(preference), first = told.empty() ? apart >= 0 : preference >= 0.5;
    for (int side = 0; side < 2; ++side) {
      columns[kPreference].push_back(known ? preference : 0.5);
      columns[kFirstIsChosen].push_back(first || !known ? 1 : 0);
      columns[kIsKnown].push_back(known ? 1 : 0);
    }
  }
  return columns;
}

std::map<std::string, double> OnlinePairs::step_numbers(const StepContext& context) const {
  return {{kBeta, at_epoch(options_.beta, context.epoch)}};
}

Group OnlinePairs::learnable(const Judged& judged) const {
  return learnt_from(judged.rollout, columns_of(judged), std::vector<bool>(judged.rollout.answers.size()));
}

Group OnlinePairs::made_of(Judged& judged, const StepContext& context) const {
  auto columns = preferences(judged, context);
  std::vector<double>& told = judged.told["preference"];
  for (std::size_t i = 0; i < columns[kPreference].size(); ++i) {
    const double first = columns[kIsKnown][i] > 0 ? columns[kPreference][i] : std::nan("");
    told.push_back(i % 2 == 0 ? first : 1 - first);
  }
  judged.counts.merge(columns);
  Group group = learnable(judged);
  const auto numbers = step_numbers(context);
  for (Batch& batch : group) {
    batch.extra.merge(document_numbers(batch.to(context.model.device()), context.resources));
    for (const auto& [name, value] : numbers) batch.extra[name] = host::tensor_of(std::vector<double>{value}, {});
  }
  return group;
}

Groups OnlinePairs::prepare(Group group, StepContext& context) {
  const spans::Span span("rollout");
  context.world.at(fmt::format("step {}, answering", context.step + 1));
  const c10::NoGradGuard no_grad;
  Judged made = judged(group, context);
  Groups groups;
  groups.push_back(made_of(made, context));
  tell(made, context);
  return groups;
}

Batch OnlinePairs::prepare_evaluation(Batch batch, StepContext& context) {
  const c10::NoGradGuard no_grad;
  Judged made = judged_for_evaluation(batch, context);
  return made_of(made, context).front();
}

Sums OnlinePairs::sums(const Batch& batch) const {
  const auto known = batch.extra.find(kIsKnown);
  return {{kPairs, known == batch.extra.end() ? 0 : host::number(firsts(known->second).sum())}};
}

std::vector<GivenAnswer> OnlinePairs::one_of_each(const Speaker& first, const Speaker& second,
                                                  const std::vector<Asked>& asked, const SeedOfAnswer& seed,
                                                  const StepContext& context) const {
  const auto said = [&](const Speaker& speaker, std::int64_t which) {
    const auto own = [&](std::size_t prompt, std::int64_t) { return seed(prompt, which); };
    return sample_by(speaker, asked, /*each=*/1, own, drawing_, context);
  };
  std::vector<Generated> by_first = said(first, 0), by_second = said(second, 1);
  std::vector<GivenAnswer> given;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    given.push_back({std::move(by_first[i])});
    given.push_back({std::move(by_second[i])});
  }
  return given;
}

AnswerLikelihoods OnlinePairs::likelihoods(const Model& model, const Output& output, const Batch& batch,
                                           const Pass& pass) const {
  const Tensor model_N = log_probs(*model.causal_lm(), output, batch, pass, nullptr);
  const Tensor mask_N = batch.weight_BT.flatten().to(model_N.scalar_type());
  const auto by_answer = [&](const Tensor& values_N) { return sums_by_document(values_N * mask_N, batch); };
  const Tensor reference_N = maybe_tokens(batch, kReferenceTokens);
  HONE_ASSERT(reference_N.defined());
  return {by_answer(model_N), by_answer(reference_N)};
}

void OnlinePairs::add_mean_of_known(const std::string& name, const Tensor& values_P, const Tensor& known_P,
                                    LossTerms& result) {
  result.means.push_back({name, (values_P * known_P).sum(), known_P.sum()});
}

}  // namespace hone::objectives
