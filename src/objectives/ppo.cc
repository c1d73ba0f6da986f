// PPO's experience and losses.
//
// Letters: B batch, T time, N tokens (B * T).
#include "objectives/ppo.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/spans.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "nn/prefix_scores.h"
#include "objectives/means.h"
#include "objectives/policy_objective.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char *kValueModel = "value_model", *kValues = "values", *kAdvantages = "advantages",
                     *kReturns = "returns", *kOldValues = "old_values", *kHasValue = "has_value", *kKl = "objective/kl",
                     *kEntropy = "objective/entropy", *kNonScore = "objective/non_score_reward",
                     *kRatio = "val/ratio", *kRatios = "val/ratio of micro-batches", *kRatioSquares = "its square",
                     *kScores = "objective/scores", *kRlhf = "objective/rlhf_reward";

AnswerSettings settings_of(const Ppo::Config& config) {
  AnswerSettings settings{.name = "ppo", .each = config.num_generations};
  settings.each_eval = config.num_generations_eval.value_or(config.num_generations);
  settings.reference = config.reference;
  settings.temperature = config.temperature;
  settings.missing_eos_penalty = config.missing_eos_penalty;
  return settings;
}

// Of prepare(), of each token; a pass that only counts memory has nothing.
Tensor numbers_N(const Batch& batch, const char* name) {
  const Tensor there_N = maybe_tokens(batch, name);
  if (there_N.defined()) return there_N;
  HONE_ASSERT(batch.ids_BT.is_meta());
  return at::zeros({batch.ids_BT.numel()}, batch.ids_BT.options().dtype(at::kDouble));
}

std::vector<double> read_all(const Tensor& values) {
  const Tensor wide = host::read(values.to(at::kDouble).flatten());
  const auto all = host::values<double>(wide);
  return {all.begin(), all.end()};
}

// Where tokens of an answer are said, and where it has a value: there, and at its end, if it ended before it had to.
struct Places {
  std::vector<std::size_t> tokens, values;
};

Places places_of(const Batch& batch, const Doc& doc, bool ends) {
  const auto labels = host::values<std::int64_t>(batch.labels_BT);
  const auto row = static_cast<std::size_t>(doc.row * batch.length());
  Places places;
  for (auto t = row + static_cast<std::size_t>(doc.begin); t < row + static_cast<std::size_t>(doc.end); ++t)
    if (labels[t] != -100) places.tokens.push_back(t);
  places.values = places.tokens;
  if (ends && !places.tokens.empty()) places.values.push_back(row + static_cast<std::size_t>(doc.end) - 1);
  return places;
}

std::vector<double> at_places(const std::vector<double>& all, const std::vector<std::size_t>& places) {
  std::vector<double> some;
  for (const std::size_t place : places) some.push_back(all[place]);
  return some;
}

// What a step's answers have gone through.
struct Experience {
  std::vector<Trajectory> answers;
  std::vector<Places> places;  // of each, in its batch
};

// How far each answer is from the reference, and how it is spread.
void count_divergence(const Experience& experience, const Ppo::Config& config,
                      std::map<std::string, std::vector<double>>& counts) {
  for (const Trajectory& answer : experience.answers) {
    double kl = 0, entropy = 0;
    for (std::size_t t = 0; t < answer.log_probs.size(); ++t) {
      kl += kl_of(config.kl_estimator, answer.log_probs[t], answer.reference[t]);
      entropy -= answer.log_probs[t];
    }
    counts[kKl].push_back(kl), counts[kEntropy].push_back(entropy);
    counts[kNonScore].push_back(-config.kl_coef * kl);
  }
}

void put(Batch& batch, const char* name, const std::vector<double>& values) {
  batch.extra[name] = host::tensor_of(values, {batch.rows(), batch.length()});
}

// From `first` on, those of the batch's documents.
void put_estimates(Batch& batch, const Experience& experience, const std::vector<Estimate>& estimates,
                   std::size_t first) {
  const auto size = static_cast<std::size_t>(batch.rows() * batch.length());
  std::vector<double> advantages(size), returns(size), values(size), has_value(size);
  for (std::size_t i = first; i < first + batch.docs.size(); ++i) {
    const Places& places = experience.places[i];
    for (std::size_t t = 0; t < places.tokens.size(); ++t) advantages[places.tokens[t]] = estimates[i].advantages[t];
    for (std::size_t t = 0; t < places.values.size(); ++t) {
      returns[places.values[t]] = estimates[i].returns[t];
      values[places.values[t]] = experience.answers[i].values[t];
      has_value[places.values[t]] = 1;
    }
  }
  put(batch, kAdvantages, advantages);
  put(batch, kReturns, returns);
  put(batch, kOldValues, values);
  put(batch, kHasValue, has_value);
}

}  // namespace

void Ppo::Config::validate(Problems& problems) const {
  require_rewards(*this, problems);
  check(problems);
}

Ppo::Ppo(const Config& config) : AnswerObjective(settings_of(config), config), config_(config) {}

Needs Ppo::needs() const {
  Needs needs = AnswerObjective::needs();
  needs.updates = config_.num_mini_batches, needs.iterations = config_.num_ppo_epochs;
  std::string& folder = needs.trained_beside[kValueModel];
  folder = config_.value_model;
  if (folder.empty() && !needs.models_with_scores.empty()) folder = needs.models.at(*needs.models_with_scores.begin());
  return needs;
}

std::optional<std::vector<std::string>> Ppo::measures() const {
  std::vector<std::string> names = measures_of_answers();
  names.insert(names.end(), {kScores, kKl, kEntropy, kNonScore, kRlhf, "policy/entropy_avg"});
  return names;
}

// What the value model expects before each token, [N].
Tensor Ppo::values_before(const Model& model, const Batch& batch) const {
  const Model* critic = nn::model_beside(model, kValueModel);
  HONE_ASSERT(critic);
  Pass pass(batch);
  return nn::prefix_scores(*critic, critic->forward(batch, pass), batch, pass);
}

// In evaluations nothing is learnt, and the value model is not asked.
Group Ppo::learnable(Judged& judged, const StepContext& context) const {
  const Rollout& rollout = judged.rollout;
  std::vector<bool> left_out;  // of which no reward says anything
  for (const double score : judged.sums) left_out.push_back(std::isnan(score));
  Group group = learnt_from(rollout, {}, left_out);
  Experience experience;
  for (Batch& batch : group) {
    const Batch there = batch.to(context.model.device());
    batch.extra.merge(document_numbers(there, context.resources));
    batch.extra[kOldLogProbs] = log_probs_by({context.model}, there);
    const std::vector<double> old = read_all(batch.extra[kOldLogProbs]),
                              reference = read_all(batch.extra[kReferenceTokens]);
    std::vector<double> values(old.size());
    if (!judged.evaluation) values = read_all(values_before(context.model, there));
    for (const Doc& doc : batch.docs) {
      const std::size_t i = experience.answers.size();
      const Answer& answer = rollout.answers[i];
      const bool ends = answer.complete && count_said(answer) < config_.max_completion_length;
      const Places places = places_of(batch, doc, ends);
      experience.answers.push_back({at_places(old, places.tokens), at_places(reference, places.tokens),
                                    at_places(values, places.values), left_out[i] ? 0 : judged.sums[i]});
      experience.places.push_back(places);
    }
  }
  count_divergence(experience, config_, judged.counts);
  const GaeOptions options{config_.kl_coef, config_.gamma, config_.lam, config_.kl_estimator, config_.whiten_rewards};
  std::vector<Estimate> estimates;
  if (!judged.evaluation) estimates = estimates_of(experience.answers, options, context.world);
  const auto columns = columns_of(judged);
  std::size_t first = 0;
  for (Batch& batch : group) {
    for (const auto& [name, values] : columns) batch.extra[name] = part_of(values, first, batch);
    if (!judged.evaluation) put_estimates(batch, experience, estimates, first);
    first += batch.docs.size();
  }
  return group;
}

Groups Ppo::prepare(Group group, StepContext& context) {
  const spans::Span span("rollout");
  context.world.at(fmt::format("step {}, answering", context.step + 1));
  const c10::NoGradGuard no_grad;
  Judged made = judged(group, context);
  const Group learnt = learnable(made, context);
  ratios_ = {};
  made.told["kl"] = made.counts.at(kKl);
  tell(made, context);
  Sums told{{"batches", static_cast<double>(learnt.size())}, {"ended", 0}};
  for (const Answer& answer : made.rollout.answers) told["ended"] += answer.complete ? 1 : 0;
  told = context.world.total(std::move(told));
  told_["val/num_eos_tokens"] = {told.at("ended"), 1};
  return dealt_out(learnt, told.at("batches"), config_.num_mini_batches, config_.num_ppo_epochs, context.world);
}

Batch Ppo::prepare_evaluation(Batch batch, StepContext& context) {
  const c10::NoGradGuard no_grad;
  Judged made = judged_for_evaluation(batch, context);
  return learnable(made, context).front();
}

Sums Ppo::sums(const Batch& batch) const {
  const auto values = batch.extra.find(kHasValue);
  return {{kAnswerTokens, static_cast<double>(batch.supervised)},
          {kValues, values == batch.extra.end() ? 0 : host::number(values->second.sum())}};
}

void Ppo::add_policy_loss(const Tensor& log_probs_N, const Batch& batch, LossTerms& result) const {
  const Tensor mask_N = batch.weight_BT.flatten().to(at::kDouble), old_N = maybe_tokens(batch, kOldLogProbs);
  const Tensor now_N = log_probs_N.to(at::kDouble);
  const Tensor apart_N = (now_N - (old_N.defined() ? old_N.to(at::kDouble) : now_N.detach())) * mask_N;
  const Tensor ratio_N = apart_N.exp(), advantage_N = numbers_N(batch, kAdvantages);
  const Tensor within_N = ratio_N.clamp_min(1 - config_.cliprange).clamp_max(1 + config_.cliprange);
  const Tensor plain_N = -advantage_N * ratio_N, clipped_N = -advantage_N * within_N;
  result.terms.push_back({"loss/policy_avg", (at::maximum(plain_N, clipped_N) * mask_N).sum(), kAnswerTokens});
  const auto add = [&](const std::string& name, const Tensor& values_N) {
    add_masked_mean(name, values_N.detach() * mask_N, mask_N, result);
  };
  add("policy/clipfrac_avg", clipped_N.gt(plain_N).to(at::kDouble));
  add("policy/approxkl_avg", apart_N.square() / 2);
  add(kRatio, ratio_N);
  // Of the micro-batch, seen from 1.
  const Tensor count = mask_N.sum(), there = count.gt(0).to(at::kDouble);
  const Tensor mean = ((ratio_N.detach() - 1) * mask_N).sum() / count.clamp_min(1);
  result.means.push_back({kRatios, mean, there});
  result.means.push_back({kRatioSquares, mean.square(), there});
}

void Ppo::measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const {
  AnswerObjective::measure_step(amounts, metrics);
  const auto means = metrics.extract(kRatios), squares = metrics.extract(kRatioSquares);
  if (means.empty() || squares.empty() || means.mapped().weight == 0) return;
  const double count = means.mapped().weight, mean = means.mapped().sum / count;
  ratios_.add({count, mean, std::max(0.0, squares.mapped().sum - count * mean * mean)});
  if (ratios_.count > 1) metrics["val/ratio_var"] = {ratios_.squares / (ratios_.count - 1), 1, LogMode::last};
}

// Its pass has the other one's settings, and lives as long.
void Ppo::add_value_loss(const Model& model, const Batch& batch, Pass& pass, LossTerms& result) const {
  const Model* critic = nn::model_beside(model, kValueModel);
  HONE_ASSERT(critic);
  const auto own = std::make_shared<Pass>(batch);
  own->training = pass.training, own->seed = pass.seed, own->checkpoint_blocks = pass.checkpoint_blocks;
  own->float8 = pass.float8;
  pass.kept.push_back(own);
  const Tensor value_N = nn::prefix_scores(*critic, critic->forward(batch, *own), batch, *own).to(at::kDouble);
  const Tensor old_N = numbers_N(batch, kOldValues), return_N = numbers_N(batch, kReturns),
               mask_N = numbers_N(batch, kHasValue);
  const double range = config_.cliprange_value;
  const Tensor near_N = at::minimum(at::maximum(value_N, old_N - range), old_N + range);
  const Tensor plain_N = (value_N - return_N).square(), clipped_N = (near_N - return_N).square();
  const Tensor sum = 0.5 * (at::maximum(plain_N, clipped_N) * mask_N).sum();
  result.terms.push_back({"loss/value", config_.vf_coef * sum, kValues});
  result.means.push_back({"loss/value_avg", sum.detach(), mask_N.sum()});
  add_masked_mean("val/clipfrac_avg", clipped_N.gt(plain_N).to(at::kDouble) * mask_N, mask_N, result);
}

void Ppo::tell_distance(const Batch& batch, LossTerms& result) const {
  const Tensor reward_S = column_of(batch, kReward), non_score_S = column_of(batch, kNonScore);
  add_mean_of_some(kScores, reward_S, result);
  add_mean_of_some(kRlhf, reward_S + non_score_S, result);
  add_mean(kNonScore, non_score_S, result);
  add_mean(kKl, column_of(batch, kKl), result);
  add_mean(kEntropy, column_of(batch, kEntropy), result);
}

LossTerms Ppo::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  Tensor statistics_N4;
  const Tensor log_probs_N = log_probs(*model.causal_lm(), output, batch, pass, &statistics_N4);
  LossTerms result;
  if (pass.training) {
    add_policy_loss(log_probs_N, batch, result);
    add_value_loss(model, batch, pass, result);
  }
  const Tensor mask_N = batch.weight_BT.flatten().to(statistics_N4.scalar_type());
  add_masked_mean("policy/entropy_avg", statistics_N4.select(1, 0) * mask_N, mask_N, result);
  tell_distance(batch, result);
  add_answer_means(batch, result);
  return result;
}

void register_ppo(Registries& hone) {
  hone.objectives.add<Ppo>("ppo", "Answer prompts, and learn each token by what a value model had not expected of it.");
}

}  // namespace hone::objectives
