// Learning from a model's own answers.
#include "objectives/policy_objective.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/plugin.h"
#include "base/spans.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "objectives/conversations.h"
#include "objectives/means.h"
#include "objectives/quantile.h"
#include "ops/log_probs.h"
#include "tensor/by_document.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char *kPolicyReference = "reference", *kReferenceTokens = "reference_log_probs",
                     *kOldLogProbs = "old_log_probs", *kAdvantage = "advantage", *kReward = "reward",
                     *kComplete = "complete", *kLength = "length",
                     *kLearnt = "learnt", *kTurns = "environment/turns", *kCalls = "calls", *kFailures = "failures",
                     *kCallFrequency = "tools/call_frequency", *kFailureFrequency = "tools/failure_frequency",
                     *kMissing = "rewards/environment/missing";
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// A reward's models, by the names that the run has for them.
class RewardModels final : public Resources {
 public:
  RewardModels(const Resources& all, std::string prefix) : all_(all), prefix_(std::move(prefix)) {}
  RoleModel model(const std::string& role) const override { return all_.model(prefix_ + role); }

 private:
  const Resources& all_;
  std::string prefix_;
};

std::string prefix_of(std::size_t reward) { return fmt::format("rewards.{}.", reward); }

// Of what prepare() has put there; a pass that only counts memory has nothing.
Tensor column_of(const Batch& batch, const char* name) {
  const auto found = batch.extra.find(name);
  if (found != batch.extra.end()) return found->second;
  HONE_ASSERT(batch.ids_BT.is_meta());
  return at::zeros({std::ssize(batch.docs)}, batch.ids_BT.options().dtype(at::kDouble));
}

Tensor maybe_tokens(const Batch& batch, const char* name) {
  const auto found = batch.extra.find(name);
  return found == batch.extra.end() ? Tensor() : found->second.flatten();
}

std::vector<double> lengths_of(const Rollout& rollout, bool complete_ones) {
  std::vector<double> lengths;
  for (const Answer& answer : rollout.answers)
    if (!complete_ones || answer.complete) lengths.push_back(static_cast<double>(count_said(answer)));
  return lengths;
}

std::vector<double> are_complete(const Rollout& rollout) {
  std::vector<double> made;
  for (const Answer& answer : rollout.answers) made.push_back(answer.complete ? 1 : 0);
  return made;
}

std::vector<double> all_ones(std::vector<double> weights, std::size_t count) {
  if (weights.empty()) weights.assign(count, 1);
  return weights;
}

}  // namespace

void PolicyOptions::check(double beta, Problems& problems) const {
  problems.require(!rewards.empty(), "rewards", "got none, expected at least one, as in rewards: [{type: accuracy}]");
  problems.require(reward_weights.empty() || reward_weights.size() == rewards.size(), "reward_weights",
                   "expected as many as there are rewards");
  problems.require(std::any_of(reward_weights.begin(), reward_weights.end(), [](double one) { return one != 0; }) ||
                       reward_weights.empty(),
                   "reward_weights", "expected at least one that is not 0");
  problems.require(beta > 0 || reference.empty(), "reference", "only with beta above 0");
  problems.require(beta > 0 || reference_sync_steps == 0, "reference_sync_steps", "only with beta above 0");
  check_moving_reference(*this, problems);
  problems.require(std::none_of(stop.begin(), stop.end(), [](const std::string& text) { return text.empty(); }), "stop",
                   "got an empty text, which nothing ends with");
}

PolicyObjective::PolicyObjective(std::string name, PolicyOptions options, double beta)
    : options_(std::move(options)),
      beta_(beta),
      weights_(all_ones(options_.reward_weights, options_.rewards.size())),
      name_(std::move(name)) {
  std::map<std::string, int> seen;
  for (const config::Choice<Reward>& choice : options_.rewards) {
    rewards_.push_back(registries().rewards.make(choice));
    rewards_.back()->check(options_.max_completion_length);
    if (rewards_.back()->needs_environment() && !has_environment())
      throw Error(ErrorKind::config, fmt::format("objective {}: reward {}: got no environment, expected one", name_,
                                                 choice.type))
          .hint("objective.environment.command is the program that says what answers are worth");
    const int number = ++seen[choice.type];
    reward_names_.push_back(number == 1 ? choice.type : fmt::format("{}_{}", choice.type, number));
  }
}

Needs PolicyObjective::needs() const {
  Needs needs{.records = RecordKind::asked};
  needs.answers = options_.num_generations, needs.answer_tokens = options_.max_completion_length;
  needs.answers_at_once = options_.generation_batch_size;
  needs.evaluation_answers = options_.num_generations_eval.value_or(options_.num_generations);
  needs.updates = options_.num_minibatches, needs.iterations = options_.num_iterations;
  if (beta_ > 0) needs.models[kPolicyReference] = options_.reference;
  follow(options_, kPolicyReference, needs.following);
  needs.models_are_language_models = true;
  for (std::size_t i = 0; i < rewards_.size(); ++i) {
    for (const auto& [role, folder] : rewards_[i]->models()) {
      needs.models[prefix_of(i) + role] = folder;
      needs.models_with_scores.insert(prefix_of(i) + role);
    }
    if (rewards_[i]->needs_reference()) needs.compares_answers = "reward " + reward_names_[i];
  }
  return needs;
}

void PolicyObjective::check(const Model& model) const { require_causal_lm(model, "objective " + name_); }

bool PolicyObjective::counts_outcomes() const {
  return std::any_of(rewards_.begin(), rewards_.end(), [](const auto& one) { return one->needs_environment(); });
}

std::string PolicyObjective::reward_name(std::size_t which) const { return "rewards/" + reward_names_[which]; }

std::optional<std::vector<std::string>> PolicyObjective::measures() const {
  std::vector<std::string> names{kReward};
  for (std::size_t i = 0; i < rewards_.size(); ++i) names.push_back(reward_name(i) + "/mean");
  names.insert(names.end(), {"completions/mean_length", "completions/clipped_ratio", "entropy"});
  if (has_environment()) names.insert(names.end(), {kTurns, kCallFrequency, kFailureFrequency});
  if (counts_outcomes()) names.push_back(kMissing);
  if (beta_ > 0) names.push_back("kl");
  for (std::string& name : further_measures()) names.push_back(std::move(name));
  return names;
}

std::vector<GivenAnswer> PolicyObjective::answers_to(const std::vector<Asked>& asked, std::int64_t each,
                                                     const SeedOfAnswer& seed, const StepContext& context,
                                                     Environment& environment) const {
  if (has_environment()) return converse(asked, each, seed, options_, environment, context);
  std::vector<GivenAnswer> given;
  for (Generated& one : sample(asked, each, seed, options_, context)) given.push_back({std::move(one)});
  return given;
}

PolicyObjective::Judged PolicyObjective::judged(const Group& group, std::int64_t each, const SeedOfAnswer& seed,
                                                const StepContext& context, bool evaluation) const {
  Environment environment(options_.environment, counts_outcomes());
  const auto answer = [&](const std::vector<Asked>& asked, const SeedOfAnswer& own) {
    return answers_to(asked, each, own, context, environment);
  };
  auto [rollout, given] = answered_by(answer, group, each, seed, context);
  environment.finish();
  Judged made;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Asked& asked = rollout.of(i);
    GivenAnswer& one = given[i];
    rollout.answers.push_back({.prompt = context.tokenizer->decode(asked.ids, /*skip_special=*/false),
                               .text = std::move(one.text),
                               .reference = asked.reference,
                               .prompt_ids = asked.ids,
                               .ids = std::move(one.ids),
                               .complete = one.is_complete(),
                               .record = context.record_name(asked.record),
                               .heard = std::move(one.heard),
                               .messages = std::move(one.messages),
                               .outcome = one.outcome});
    if (!has_environment()) continue;
    for (const auto& [name, count] : {std::pair(kTurns, one.turns), {kCalls, one.calls}, {kFailures, one.failures}})
      made.counts[name].push_back(static_cast<double>(count));
    made.counts[kMissing].push_back(one.outcome ? 0 : 1);
  }
  made.evaluation = evaluation;
  made.rollout = std::move(rollout);
  judge(made, context);
  return made;
}

void PolicyObjective::judge(Judged& judged, const StepContext& context) const {
  const std::vector<Answer>& answers = judged.rollout.answers;
  for (std::size_t k = 0; k < rewards_.size(); ++k) {
    const auto who = [&] { return fmt::format("reward {}", reward_names_[k]); };
    if (rewards_[k]->needs_reference())
      for (const Answer& answer : answers)
        if (answer.reference.empty())
          throw Error(ErrorKind::data, fmt::format("{}: {} has no answer to compare with", who(), answer.record));
    const RewardModels models(context.resources, prefix_of(k));
    const auto values = in_plugin(who, [&] {
      return rewards_[k]->score(answers, {*context.tokenizer, models, options_.max_completion_length, context.step});
    });
    if (values.size() != answers.size())
      throw Error(ErrorKind::bug, fmt::format("{}: {} values; expected one for each of {} answers", who(),
                                              values.size(), answers.size()));
    std::vector<double>& own = judged.rewards.emplace_back();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] && !std::isfinite(*values[i]))
        throw Error(ErrorKind::data, fmt::format("{}: {} for an answer to {}; expected a finite number", who(),
                                                 *values[i], answers[i].record));
      own.push_back(values[i].value_or(kNone));
    }
  }
  judged.sums = sums_of(judged.rewards, weights_);
}

// What is learnt of them, once it is known how likely they were.
Group PolicyObjective::learnable(Judged& judged, const StepContext& context) const {
  std::map<std::string, std::vector<double>> columns{
      {kReward, judged.sums}, {kComplete, are_complete(judged.rollout)}, {kLength, lengths_of(judged.rollout, false)}};
  for (std::size_t k = 0; k < rewards_.size(); ++k) columns[reward_name(k)] = judged.rewards[k];
  columns.insert(judged.counts.begin(), judged.counts.end());
  std::vector<bool> left_out;
  for (const Answer& answer : judged.rollout.answers)
    left_out.push_back(options_.mask_truncated_completions && !answer.complete);
  Group group = learnt_from(judged.rollout, columns, left_out);
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
  Sums tokens{{"batches", static_cast<double>(group.size())}, {"tokens", 0}};
  for (const Batch& batch : group) tokens["tokens"] += static_cast<double>(batch.supervised);
  tokens = world.total(std::move(tokens));
  judged.batches = tokens.at("batches");
  const double mean = std::max(1.0, tokens.at("tokens")) / judged.batches;
  std::vector<double> all = advantages(judged, world);
  std::size_t begin = 0;
  for (Batch& batch : group) {
    const auto count = std::ssize(batch.docs);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    batch.extra[kAdvantage] = host::tensor_of(std::vector<double>(first, first + count), {count});
    batch.extra[kAnswerTokens] = host::tensor_of(std::vector<double>{mean}, {});
    begin += static_cast<std::size_t>(count);
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
  Judged made = judged(group, options_.num_generations, seeds_of_step(group, context), context, /*evaluation=*/false);
  const Group learnt = learnable(made, context);
  tell(made, context.world);
  return dealt_out(learnt, made.batches, context.world);
}

// By their numbers over all ranks, so that it does not depend on how many these are; a part may have none.
Groups PolicyObjective::dealt_out(const Group& learnt, double batches, const World& world) const {
  const auto parts = static_cast<std::size_t>(options_.num_minibatches), ranks = static_cast<std::size_t>(world.size());
  const auto all = static_cast<std::size_t>(batches);
  Groups once(parts), groups;
  for (std::size_t i = 0; i < learnt.size(); ++i) {
    const std::size_t number = i * ranks + static_cast<std::size_t>(world.rank());
    once[std::min(parts - 1, number * parts / all)].push_back(learnt[i]);
  }
  for (std::int64_t iteration = 0; iteration < options_.num_iterations; ++iteration)
    groups.insert(groups.end(), once.begin(), once.end());
  return groups;
}

Batch PolicyObjective::prepare_evaluation(Batch batch, StepContext& context) {
  const c10::NoGradGuard no_grad;
  const std::int64_t each = options_.num_generations_eval.value_or(options_.num_generations);
  Judged made = judged({batch}, each, seeds_of_evaluation(batch, context), context, /*evaluation=*/true);
  return learnable(made, context).front();
}

// What the step's answers are like, as TRL tells it; the same for each of the step's updates.
void PolicyObjective::tell(const Judged& judged, const World& world) {
  ValuesByName values{{kReward, judged.sums},
                      {kLength, lengths_of(judged.rollout, false)},
                      {"complete", lengths_of(judged.rollout, true)}};
  for (std::size_t k = 0; k < rewards_.size(); ++k) values[reward_name(k)] = judged.rewards[k];
  for (const Moments& group : moments_by_group(judged.sums, judged.rollout.each))
    values["alike"].push_back(group.count == 0 || group.std() < 1e-8 ? 1 : 0);
  const auto moments = moments_over(world, values);
  if (moments.at(kReward).count == 0 && world.is_first())
    warnings_.warning("no reward says anything of any answer of the step: there is nothing to learn from it");
  told_.clear();
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value)) told_[name] = {value, 1};
  };
  add("reward_std", moments.at(kReward).std());
  for (std::size_t k = 0; k < rewards_.size(); ++k) add(reward_name(k) + "/std", moments.at(reward_name(k)).std());
  add("frac_reward_zero_std", moments.at("alike").mean);
  add("completions/min_length", moments.at(kLength).low);
  add("completions/max_length", moments.at(kLength).high);
  const Moments& complete = moments.at("complete");
  add("completions/mean_terminated_length", complete.mean);
  add("completions/min_terminated_length", complete.low);
  add("completions/max_terminated_length", complete.high);
}

void PolicyObjective::measure_step(const Sums&, std::map<std::string, Metric>& metrics) const {
  for (const auto& [name, metric] : told_) metrics[name] = metric;
}

Tensor PolicyObjective::log_probs(const CausalLm& model, const Output& output, const Batch& batch, const Pass& pass,
                                  Tensor* statistics_N4) const {
  const Tensor hidden_BTD = options_.temperature == 1 ? output.hidden_BTD : output.hidden_BTD / options_.temperature;
  ops::TokenLogProbs made = model.head().log_probs(hidden_BTD, batch.labels_BT, pass, statistics_N4 != nullptr);
  if (statistics_N4) *statistics_N4 = made.statistics_N4;
  return made.log_probs_N;
}

Tensor PolicyObjective::log_probs_by(const RoleModel& role, const Batch& batch, Tensor* entropy_BT) const {
  const CausalLm& model = require_causal_lm(role.model, "objective " + name_);
  Pass pass(batch);
  pass.adapter = role.adapter;
  Tensor statistics_N4;
  Tensor* const statistics = entropy_BT ? &statistics_N4 : nullptr;
  const Tensor made_N = log_probs(model, model.forward(batch, pass), batch, pass, statistics);
  if (entropy_BT) *entropy_BT = host::read(statistics_N4.select(1, 0).to(at::kDouble)).view_as(batch.labels_BT);
  return made_N.view_as(batch.labels_BT);
}

std::map<std::string, Tensor> PolicyObjective::document_numbers(const Batch& batch, const Resources& resources) const {
  if (beta_ == 0 || batch.extra.contains(kReferenceTokens)) return {};
  return {{kReferenceTokens, log_probs_by(resources.model(kPolicyReference), batch)}};
}

// Tokens: each micro-batch counts for as many as they have on average, so that all tokens of a step weigh the same, in
// whichever of its updates they are.
Sums PolicyObjective::sums(const Batch& batch) const {
  const auto tokens = batch.extra.find(kAnswerTokens);
  return {{kAnswers, static_cast<double>(batch.docs.size())},
          {kAnswerTokens, tokens == batch.extra.end() ? 0 : host::number(tokens->second)}};
}

void PolicyObjective::add_turns(const Batch& batch, LossTerms& result) const {
  const Tensor calls_S = column_of(batch, kCalls);
  add_mean_of_some(kTurns, column_of(batch, kTurns), result);
  add_mean_of_some(kCallFrequency, calls_S, result);
  if (counts_outcomes()) add_mean_of_some(kMissing, column_of(batch, kMissing), result);
  result.means.push_back({kFailureFrequency, column_of(batch, kFailures).sum(), calls_S.sum()});
}

LossTerms PolicyObjective::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  Tensor statistics_N4;
  Tokens tokens;
  tokens.log_probs_N = log_probs(*model.causal_lm(), output, batch, pass, &statistics_N4);
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
  add_mean_of_some(kReward, column_of(batch, kReward), result);
  for (std::size_t k = 0; k < rewards_.size(); ++k)
    add_mean_of_some(reward_name(k) + "/mean", column_of(batch, reward_name(k).c_str()), result);
  const Tensor complete_S = column_of(batch, kComplete);
  add_mean_of_some("completions/clipped_ratio", 1 - complete_S, result);
  add_mean_of_some("completions/mean_length", column_of(batch, kLength), result);
  if (has_environment()) add_turns(batch, result);
  return result;
}

}  // namespace hone::objectives
