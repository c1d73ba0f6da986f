// Learning from a model's own answers by advantages.
#include "objectives/policy_objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/spans.h"
#include "hone/world.h"
#include "objectives/means.h"
#include "objectives/quantile.h"
#include "tensor/by_document.h"
#include "tensor/host.h"
#include "tensor/micro_batch.h"

namespace hone::objectives {
namespace {

constexpr const char *kAdvantage = "advantage", *kLearnt = "learnt";

// As a number of the micro-batch, whose tensors are on the host.
Tensor active_tokens_of(const Batch& batch) {
  Tensor active_BT = host::read(batch.weight_BT.ne(0));
  if (const auto learnt = batch.extra.find(kLearnt); learnt != batch.extra.end())
    active_BT = active_BT & learnt->second;
  return active_BT.to(at::kDouble).sum();
}

AnswerSettings settings_of(std::string name, const PolicyOptions& options, double beta) {
  AnswerSettings settings{.name = std::move(name), .each = options.num_generations};
  settings.each_eval = options.num_generations_eval.value_or(options.num_generations);
  settings.temperature = options.temperature;
  if (beta > 0) settings.reference = options.reference;
  follow(options, "reference", settings.following);
  return settings;
}

}  // namespace

void PolicyOptions::check(double beta, Problems& problems) const {
  require_rewards(*this, problems);
  JudgingOptions::check(problems);
  problems.require(beta > 0 || reference.empty(), "reference", "only with beta above 0");
  problems.require(beta > 0 || reference_sync_steps == 0, "reference_sync_steps", "only with beta above 0");
  check_moving_reference(*this, problems);
}

PolicyObjective::PolicyObjective(std::string name, PolicyOptions options, double beta)
    : AnswerObjective(settings_of(std::move(name), options, beta), options),
      options_(std::move(options)),
      beta_(beta) {}

Needs PolicyObjective::needs() const {
  Needs needs = AnswerObjective::needs();
  needs.updates = options_.num_minibatches, needs.iterations = options_.num_iterations;
  needs.asks_for_more = options_.resample > 0;
  return needs;
}

std::optional<std::vector<std::string>> PolicyObjective::measures() const {
  std::vector<std::string> names = measures_of_answers();
  names.push_back("entropy");
  if (beta_ > 0) names.push_back("kl");
  for (std::string& name : further_measures()) names.push_back(std::move(name));
  return names;
}

namespace {

// Of all ranks: batches, and tokens that are learnt.
Sums totals_of(const Group& group, const World& world) {
  Sums totals{{"batches", static_cast<double>(group.size())}, {"tokens", 0}};
  for (const Batch& batch : group) totals["tokens"] += static_cast<double>(batch.supervised);
  return world.total(std::move(totals));
}

}  // namespace

// What is learnt of them, once it is known how likely they were.
Group PolicyObjective::learnable(Judged& judged, const StepContext& context) const {
  std::vector<bool> left_out;
  for (const Answer& answer : judged.rollout.answers)
    left_out.push_back(options_.mask_truncated_completions && !answer.complete);
  Group group = learnt_from(judged.rollout, columns_of(judged), left_out);
  const bool changes = options_.num_iterations * options_.num_minibatches > 1 || always_knows_old();
  const bool by_entropy = learnt_share() < 1;
  std::vector<Tensor> entropies;
  for (Batch& batch : group) {
    const Batch there = batch.to(context.model.device());
    if (beta_ > 0) batch.extra.merge(document_numbers(there, context.resources));
    if (by_entropy) {
      const Tensor now_BT = log_probs_by({context.model}, there, &entropies.emplace_back());
      if (changes && !judged.evaluation) batch.extra[kOldLogProbs] = now_BT;
    }
    if (judged.evaluation) continue;
    if (changes && !by_entropy) batch.extra[kOldLogProbs] = log_probs_by({context.model}, there);
    if (!judges_by_divergence()) continue;
    const Tensor apart_N =
        (maybe_tokens(batch, kOldLogProbs) - maybe_tokens(batch, kReferenceTokens)) * there.weight_BT.flatten();
    const Tensor apart_S = host::read(sums_by_document(apart_N, there));
    const auto values = host::values<double>(apart_S);
    judged.divergence.insert(judged.divergence.end(), values.begin(), values.end());
  }
  const World world = judged.evaluation ? World() : context.world;
  if (by_entropy) choose_tokens(group, entropies, world);
  const Sums totals = totals_of(group, world);
  judged.batches = totals.at("batches"), judged.learnt_tokens = totals.at("tokens");
  const double mean = std::max(1.0, totals.at("tokens")) / judged.batches;
  const std::vector<double> all = judged.told["advantage"] = advantages(judged, world);
  std::size_t begin = 0;
  for (Batch& batch : group) {
    batch.extra[kAdvantage] = part_of(all, begin, batch);
    batch.extra[kAnswerTokens] = host::tensor_of(std::vector<double>{mean}, {});
    if (learns_entropy()) batch.extra[kActiveTokens] = active_tokens_of(batch);
    begin += batch.docs.size();
  }
  return group;
}

// By one bound for all of the step, however it is cut into micro-batches and ranks (Wang et al., 2025,
// arXiv:2506.01939). Entropies are on the host.
void PolicyObjective::choose_tokens(Group& group, const std::vector<Tensor>& entropies, const World& world) const {
  std::vector<double> all;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Tensor learnt = host::read(group[i].weight_BT.ne(0)), values = entropies[i].masked_select(learnt);
    const auto some = host::values<double>(values);
    all.insert(all.end(), some.begin(), some.end());
  }
  const double bound = quantile_over(world, all, 1 - learnt_share());
  for (std::size_t i = 0; i < group.size(); ++i) group[i].extra[kLearnt] = entropies[i].ge(bound);
}

Groups PolicyObjective::prepare(Group group, StepContext& context) {
  const spans::Span span("rollout");
  context.world.at(fmt::format("step {}, answering", context.step + 1));
  const c10::NoGradGuard no_grad;
  Judged made = judged(group, context);
  Metrics resampled;
  if (options_.resample > 0) made = with_something_to_learn(std::move(made), context, resampled);
  ReplayBuffer* buffer = replay_buffer();
  if (buffer) {  // what answers are worth now is told of those that were given now
    tell_given(made, context.world);
    made = with_replayed(std::move(made), *buffer, context, resampled);
  }
  const Group learnt = learnable(made, context);
  buffer ? tell_lines(made, context) : tell(made, context);
  if (made.learnt_tokens == 0 && context.world.is_first())
    warn("all answers of the step were cut off, and mask_truncated_completions leaves them out: nothing is learnt; "
         "max_completion_length says how long they may be");
  for (const auto& [name, value] : resampled) told_[name] = {value, 1};
  return dealt_out(learnt, made.batches, options_.num_minibatches, options_.num_iterations, context.world);
}

Groups dealt_out(const Group& learnt, double batches, std::int64_t updates, std::int64_t times, const World& world) {
  const auto parts = static_cast<std::size_t>(updates), ranks = static_cast<std::size_t>(world.size());
  const auto all = static_cast<std::size_t>(batches);
  Groups once(parts), groups;
  for (std::size_t i = 0; i < learnt.size(); ++i) {
    const std::size_t number = i * ranks + static_cast<std::size_t>(world.rank());
    const std::size_t part = std::min(parts - 1, number * parts / all), first = (part * all + parts - 1) / parts;
    once[part].push_back(learnt[i]);
    if (parts > 1) set_micro_batch(once[part].back(), static_cast<std::int64_t>(number - first));
  }
  for (std::int64_t time = 0; time < times; ++time) groups.insert(groups.end(), once.begin(), once.end());
  return groups;
}

Batch PolicyObjective::prepare_evaluation(Batch batch, StepContext& context) {
  const c10::NoGradGuard no_grad;
  Judged made = judged_for_evaluation(batch, context);
  return learnable(made, context).front();
}

// Tokens: each micro-batch counts for as many as they have on average, so that all tokens of a step weigh the same, in
// whichever of its updates they are.
Sums PolicyObjective::sums(const Batch& batch) const {
  const auto number = [&](const char* name) {
    const auto found = batch.extra.find(name);
    return found == batch.extra.end() ? 0 : host::number(found->second);
  };
  Sums sums{{kAnswers, static_cast<double>(batch.docs.size())}, {kAnswerTokens, number(kAnswerTokens)}};
  if (learns_entropy()) sums[kActiveTokens] = number(kActiveTokens);
  return sums;
}

LossTerms PolicyObjective::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  Tensor statistics_N4;
  Tokens tokens;
  tokens.log_probs_N = log_probs(*model.causal_lm(), output, batch, pass, &statistics_N4,
                                 learns_entropy() ? &tokens.entropy_N : nullptr);
  tokens.mask_N = batch.weight_BT.flatten().to(tokens.log_probs_N.scalar_type());
  tokens.old_N = maybe_tokens(batch, kOldLogProbs);
  tokens.reference_N = maybe_tokens(batch, kReferenceTokens);
  tokens.documents_N = documents_of_tokens(batch);
  tokens.advantages_S = column_of(batch, kAdvantage);
  if (const Tensor learnt_N = maybe_tokens(batch, kLearnt); learnt_N.defined())
    tokens.learnt_N = learnt_N.to(tokens.log_probs_N.scalar_type());
  tokens.training = pass.training;
  LossTerms result;
  add_terms(tokens, result);
  add_masked_mean("entropy", statistics_N4.select(1, 0) * tokens.mask_N, tokens.mask_N, result);
  add_answer_means(batch, result);
  return result;
}

}  // namespace hone::objectives
