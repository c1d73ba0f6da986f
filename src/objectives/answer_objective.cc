// Drawing and judging a model's own answers.
#include "objectives/answer_objective.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/plugin.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "objectives/completions.h"
#include "objectives/conversations.h"
#include "objectives/means.h"
#include "objectives/reward_bounds.h"
#include "ops/log_probs.h"
#include "tensor/host.h"
#include "text/form/grammar.h"

namespace hone::objectives {
namespace {

constexpr const char *kPolicyReference = "reference", *kLength = "length", *kTurns = "environment/turns",
                     *kCalls = "calls", *kFailures = "failures", *kCallFrequency = "tools/call_frequency",
                     *kFailureFrequency = "tools/failure_frequency", *kMissing = "rewards/environment/missing";
constexpr double kSaysNothing = std::numeric_limits<double>::quiet_NaN();

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

Tensor part_of(const std::vector<double>& all, std::size_t begin, const Batch& batch) {
  const auto count = std::ssize(batch.docs);
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return host::tensor_of(std::vector<double>(first, first + count), {count});
}

void AnsweringOptions::check(Problems& problems) const {
  problems.require(std::none_of(stop.begin(), stop.end(), [](const std::string& text) { return text.empty(); }), "stop",
                   "got an empty text, which nothing ends with");
  try {
    if (!regex.empty()) text::grammar_of_regex(regex, "regex");
  } catch (const Error& error) {
    problems.add("regex", error.what());
  }
  problems.require(log_completions || num_completions_to_print == 0, "num_completions_to_print",
                   "only with log_completions: true");
}

void JudgingOptions::check(Problems& problems) const {
  problems.require(reward_weights.empty() || reward_weights.size() == rewards.size(), "reward_weights",
                   "expected as many as there are rewards");
  problems.require(std::any_of(reward_weights.begin(), reward_weights.end(), [](double one) { return one != 0; }) ||
                       reward_weights.empty(),
                   "reward_weights", "expected at least one that is not 0");
  problems.require(std::all_of(reward_weights.begin(), reward_weights.end(), may_be_reward), "reward_weights",
                   "expected numbers from -1e9 to 1e9");
  AnsweringOptions::check(problems);
}

void require_rewards(const JudgingOptions& options, Problems& problems) {
  problems.require(!options.rewards.empty(), "rewards",
                   "got none, expected at least one, as in rewards: [{type: accuracy}]");
}

AnswerObjective::AnswerObjective(AnswerSettings settings, JudgingOptions drawing)
    : settings_(std::move(settings)),
      drawing_(std::move(drawing)),
      weights_(all_ones(drawing_.reward_weights, drawing_.rewards.size())) {
  std::map<std::string, int> seen;
  for (const config::Choice<Reward>& choice : drawing_.rewards) {
    rewards_.push_back(registries().rewards.make(choice));
    rewards_.back()->check(drawing_.max_completion_length);
    if (rewards_.back()->needs_environment() && !has_environment())
      throw Error(ErrorKind::config,
                  fmt::format("objective {}: reward {}: got no environment, expected one", settings_.name, choice.type))
          .hint("objective.environment.command is the program that says what answers are worth");
    const int number = ++seen[choice.type];
    reward_names_.push_back(number == 1 ? choice.type : fmt::format("{}_{}", choice.type, number));
  }
}

Needs AnswerObjective::needs() const {
  Needs needs{.records = RecordKind::asked};
  needs.answers = settings_.each, needs.answer_tokens = drawing_.max_completion_length;
  needs.answers_at_once = drawing_.generation_batch_size;
  needs.keeps_turns = has_environment() && drawing_.environment.keep_turns;
  needs.evaluation_answers = settings_.each_eval;
  if (settings_.reference) needs.models[kPolicyReference] = *settings_.reference;
  needs.following = settings_.following;
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

void AnswerObjective::check(const Model& model) const { require_causal_lm(model, "objective " + settings_.name); }

RoleModel AnswerObjective::reference(const Resources& resources) const { return resources.model(kPolicyReference); }

bool AnswerObjective::counts_outcomes() const {
  return std::any_of(rewards_.begin(), rewards_.end(), [](const auto& one) { return one->needs_environment(); });
}

std::string AnswerObjective::reward_name(std::size_t which) const { return "rewards/" + reward_names_[which]; }

std::vector<std::string> AnswerObjective::measures_of_answers() const {
  std::vector<std::string> names;
  if (!rewards_.empty()) names.push_back(kReward);
  for (std::size_t i = 0; i < rewards_.size(); ++i) names.push_back(reward_name(i) + "/mean");
  names.insert(names.end(), {"completions/mean_length", "completions/clipped_ratio"});
  if (has_environment()) names.insert(names.end(), {kTurns, kCallFrequency, kFailureFrequency});
  if (counts_outcomes()) names.push_back(kMissing);
  return names;
}

std::vector<GivenAnswer> AnswerObjective::answers_to(const std::vector<Asked>& asked, std::int64_t each,
                                                     const SeedOfAnswer& seed, const StepContext& context,
                                                     Environment& environment) const {
  if (has_environment()) return converse(asked, each, seed, drawing_, environment, context);
  std::vector<GivenAnswer> given;
  for (Generated& one : sample(asked, each, seed, drawing_, context)) given.push_back({std::move(one)});
  return given;
}

AnswerObjective::Judged AnswerObjective::judged(const Group& group, const StepContext& context,
                                                std::int64_t draw) const {
  return judged(group, settings_.each, seeds_of_step(group, context, draw), context);
}

AnswerObjective::Judged AnswerObjective::judged_for_evaluation(const Batch& batch, const StepContext& context) const {
  Judged made = judged({batch}, settings_.each_eval, seeds_of_evaluation(batch, context), context);
  made.evaluation = true;
  return made;
}

AnswerObjective::Judged AnswerObjective::judged(const Group& group, std::int64_t each, const SeedOfAnswer& seed,
                                                const StepContext& context) const {
  Environment environment(drawing_.environment, counts_outcomes());
  const auto answer = [&](const std::vector<Asked>& asked, const SeedOfAnswer& own) {
    return answers_to(asked, each, own, context, environment);
  };
  auto [rollout, given] = answered_by(answer, group, each, seed, context);
  environment.finish();
  Judged made;
  take_answers(rollout, given, context);
  if (!has_environment()) given.clear();  // of which nothing is counted
  for (const GivenAnswer& one : given) {
    for (const auto& [name, count] : {std::pair(kTurns, one.turns), {kCalls, one.calls}, {kFailures, one.failures}})
      made.counts[name].push_back(static_cast<double>(count));
    made.counts[kMissing].push_back(one.outcome ? 0 : 1);
  }
  made.rollout = std::move(rollout);
  judge(made, context);
  return made;
}

void AnswerObjective::judge(Judged& judged, const StepContext& context) const {
  const std::vector<Answer>& answers = judged.rollout.answers;
  for (std::size_t k = 0; k < rewards_.size(); ++k) {
    const auto who = [&] { return fmt::format("reward {}", reward_names_[k]); };
    if (rewards_[k]->needs_reference())
      for (const Answer& answer : answers)
        if (answer.reference.empty())
          throw Error(ErrorKind::data, fmt::format("{}: {} has no answer to compare with", who(), answer.record));
    const RewardModels models(context.resources, prefix_of(k));
    const auto values = in_plugin(who, [&] {
      return rewards_[k]->score(answers, {*context.tokenizer, models, drawing_.max_completion_length, context.step});
    });
    if (values.size() != answers.size())
      throw Error(ErrorKind::bug, fmt::format("{}: {} values; expected one for each of {} answers", who(),
                                              values.size(), answers.size()));
    std::vector<double>& own = judged.rewards.emplace_back();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] && !may_be_reward(*values[i]))
        throw Error(ErrorKind::data, fmt::format("{}: got {} for an answer to {}, expected a number from -1e9 to 1e9",
                                                 who(), *values[i], answers[i].record));
      own.push_back(values[i].value_or(kSaysNothing));
    }
  }
  if (rewards_.empty()) return;
  judged.sums = sums_of(judged.rewards, weights_);
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (settings_.missing_eos_penalty && !answers[i].complete) judged.sums[i] -= *settings_.missing_eos_penalty;
}

std::map<std::string, std::vector<double>> AnswerObjective::columns_of(const Judged& judged) const {
  std::map<std::string, std::vector<double>> columns{{kComplete, are_complete(judged.rollout)},
                                                     {kLength, lengths_of(judged.rollout, false)}};
  if (!rewards_.empty()) columns[kReward] = judged.sums;
  for (std::size_t k = 0; k < rewards_.size(); ++k) columns[reward_name(k)] = judged.rewards[k];
  columns.insert(judged.counts.begin(), judged.counts.end());
  return columns;
}

void AnswerObjective::tell(const Judged& judged, const StepContext& context) {
  tell_moments(judged, context.world);
  tell_lines(judged, context);
}

void AnswerObjective::tell_given(const Judged& judged, const World& world) {
  const auto moments = tell_moments(judged, world);
  const auto add = [&](const std::string& name, const char* of) {
    if (const Moments& own = moments.at(of); own.count > 0) told_[name] = {own.mean, 1};
  };
  add("completions/mean_length", kLength);
  if (!rewards_.empty()) add(kReward, kReward);
  for (std::size_t k = 0; k < rewards_.size(); ++k) add(reward_name(k) + "/mean", reward_name(k).c_str());
  const double given = moments.at(kLength).count, complete = moments.at("complete").count;
  told_["completions/clipped_ratio"] = {given > 0 ? 1 - complete / given : 0, 1};
}

void AnswerObjective::tell_lines(const Judged& judged, const StepContext& context) const {
  if (!drawing_.log_completions) return;
  ToldNumbers numbers{.rewards = {}, .others = judged.told};
  if (!rewards_.empty()) numbers.others[kReward] = judged.sums;
  for (std::size_t k = 0; k < rewards_.size(); ++k) numbers.rewards[reward_names_[k]] = judged.rewards[k];
  tell_completions(judged.rollout, numbers, drawing_.num_completions_to_print, context);
}

// Answers to a prompt that are all rewarded alike teach nothing; a step of them may be chance.
void AnswerObjective::warn_where_alike(const Moments& alike, const World& world) {
  constexpr int kSteps = 10;
  const bool all = !rewards_.empty() && settings_.each > 1 && alike.count > 0 && alike.low == 1;
  alike_steps_ = all ? alike_steps_ + 1 : 0;
  if (alike_steps_ == kSteps && world.is_first())
    warnings_.warning(fmt::format("all answers to each prompt were rewarded alike in the last {} steps: there is "
                                  "nothing to learn from that",
                                  kSteps));
}

// What the step's answers are like, as TRL tells it; the same for each of the step's updates.
std::map<std::string, Moments> AnswerObjective::tell_moments(const Judged& judged, const World& world) {
  ValuesByName values{{kLength, lengths_of(judged.rollout, false)}, {"complete", lengths_of(judged.rollout, true)}};
  values[kReward] = judged.sums, values["alike"] = {};
  for (std::size_t k = 0; k < rewards_.size(); ++k) values[reward_name(k)] = judged.rewards[k];
  for (const Moments& group : moments_by_group(judged.sums, judged.rollout.each))
    values["alike"].push_back(group.count == 0 || group.std() < 1e-8 ? 1 : 0);
  const auto moments = moments_over(world, values);
  if (!rewards_.empty() && moments.at(kReward).count == 0 && world.is_first())
    warnings_.warning("no reward says anything of any answer of the step: there is nothing to learn from it");
  warn_where_alike(moments.at("alike"), world);
  told_.clear();
  const auto add = [&](const std::string& name, double value) { told_[name] = {value, 1}; };
  const auto add_std = [&](const std::string& name, const Moments& of) {
    if (of.count > 1) add(name, of.std());  // one number, or none, has no spread
  };
  add("completions/min_length", moments.at(kLength).low);
  add("completions/max_length", moments.at(kLength).high);
  const Moments& complete = moments.at("complete");
  add("completions/mean_terminated_length", complete.mean);
  add("completions/min_terminated_length", complete.low);
  add("completions/max_terminated_length", complete.high);
  if (rewards_.empty()) return moments;
  add_std("reward_std", moments.at(kReward));
  for (std::size_t k = 0; k < rewards_.size(); ++k) add_std(reward_name(k) + "/std", moments.at(reward_name(k)));
  if (settings_.each > 1) add("frac_reward_zero_std", moments.at("alike").mean);
  return moments;
}

void AnswerObjective::measure_step(const Sums&, std::map<std::string, Metric>& metrics) const {
  for (const auto& [name, metric] : told_) metrics[name] = metric;
}

Tensor AnswerObjective::log_probs(const CausalLm& model, const Output& output, const Batch& batch, const Pass& pass,
                                  Tensor* statistics_N4, Tensor* entropy_N) const {
  const bool plain = settings_.temperature == 1;
  const Tensor hidden_BTD = plain ? output.hidden_BTD : output.hidden_BTD / settings_.temperature;
  ops::TokenLogProbs made =
      model.head().log_probs(hidden_BTD, batch.labels_BT, pass, statistics_N4 != nullptr, entropy_N != nullptr);
  if (statistics_N4) *statistics_N4 = made.statistics_N4;
  if (entropy_N) *entropy_N = made.entropy_N;
  return made.log_probs_N;
}

Tensor AnswerObjective::log_probs_by(const RoleModel& role, const Batch& batch, Tensor* entropy_BT) const {
  const CausalLm& model = require_causal_lm(role.model, "objective " + settings_.name);
  Pass pass(batch);
  pass.adapter = role.adapter;
  Tensor statistics_N4;
  Tensor* const statistics = entropy_BT ? &statistics_N4 : nullptr;
  const Tensor made_N = log_probs(model, model.forward(batch, pass), batch, pass, statistics);
  if (entropy_BT) *entropy_BT = host::read(statistics_N4.select(1, 0).to(at::kDouble)).view_as(batch.labels_BT);
  return made_N.view_as(batch.labels_BT);
}

std::map<std::string, Tensor> AnswerObjective::document_numbers(const Batch& batch, const Resources& resources) const {
  if (!settings_.reference || batch.extra.contains(kReferenceTokens)) return {};
  return {{kReferenceTokens, log_probs_by(reference(resources), batch)}};
}

void AnswerObjective::add_turns(const Batch& batch, LossTerms& result) const {
  const Tensor calls_S = column_of(batch, kCalls);
  add_mean_of_some(kTurns, column_of(batch, kTurns), result);
  add_mean_of_some(kCallFrequency, calls_S, result);
  if (counts_outcomes()) add_mean_of_some(kMissing, column_of(batch, kMissing), result);
  result.means.push_back({kFailureFrequency, column_of(batch, kFailures).sum(), calls_S.sum()});
}

void AnswerObjective::add_answer_means(const Batch& batch, LossTerms& result) const {
  if (!rewards_.empty()) add_mean_of_some(kReward, column_of(batch, kReward), result);
  for (std::size_t k = 0; k < rewards_.size(); ++k)
    add_mean_of_some(reward_name(k) + "/mean", column_of(batch, reward_name(k).c_str()), result);
  add_mean_of_some("completions/clipped_ratio", 1 - column_of(batch, kComplete), result);
  add_mean_of_some("completions/mean_length", column_of(batch, kLength), result);
  if (has_environment()) add_turns(batch, result);
}

}  // namespace hone::objectives
