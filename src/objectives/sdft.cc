// Answers, and what the model says of them when it is shown more.
//
// Letters: B batch, T time, E hidden size, P places of learnt tokens.
#include "objectives/sdft.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/spans.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "objectives/divisor.h"
#include "objectives/document_parts.h"
#include "objectives/teacher_states.h"
#include "ops/cross_entropy.h"
#include "ops/divergence.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char *kRole = "teacher", *kTeacherPrompt = "teacher_prompt", *kShares = "token_shares";

// Of each document so many tokens, and -1 behind them, [docs, width].
Tensor padded(const std::vector<std::vector<std::int32_t>>& prompts) {
  std::size_t width = 0;
  for (const auto& ids : prompts) width = std::max(width, ids.size());
  std::vector<std::int64_t> all(prompts.size() * width, -1);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    std::copy(prompts[i].begin(), prompts[i].end(), all.begin() + static_cast<std::ptrdiff_t>(i * width));
  return host::tensor_of(all, {std::ssize(prompts), static_cast<std::int64_t>(width)});
}

// A batch's documents with other prompts, in the same rows and order.
Batch with_prompts(const Batch& batch, const Tensor& prompts) {
  const PartedDocuments documents(batch);
  const Tensor prompts_on_host = host::read(prompts);
  const auto ids = host::values<std::int64_t>(prompts_on_host);
  const auto width = static_cast<std::size_t>(prompts.size(1));
  std::vector<HostRow> rows(static_cast<std::size_t>(batch.rows()));
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    const AnswerTokens answer = documents.of(i).answer;
    HostDoc doc{.ids = {}, .targets = {}, .record = batch.docs[i].record};
    doc.role = batch.docs[i].role, doc.group = batch.docs[i].group;
    const auto own = ids.begin() + static_cast<std::ptrdiff_t>(i * width);
    doc.ids.assign(own, std::find(own, own + static_cast<std::ptrdiff_t>(width), -1));
    doc.targets.assign(doc.ids.size() - 1, -100);
    doc.ids.insert(doc.ids.end(), answer.ids.begin(), answer.ids.end());
    doc.targets.insert(doc.targets.end(), answer.targets.begin(), answer.targets.end());
    rows[static_cast<std::size_t>(batch.docs[i].row)].push_back(std::move(doc));
  }
  return to_batch(pad(rows, /*pad_id=*/0));
}

// Where tokens are learnt, [P].
Tensor learnt_places(const Tensor& labels_BT) { return host::read(labels_BT).flatten().ne(-100).nonzero().squeeze(1); }

AnswerSettings settings_of(const Sdft::Config& config) {
  AnswerSettings settings{.name = "sdft", .each = config.num_generations};
  settings.each_eval = config.num_generations_eval.value_or(config.num_generations);
  const std::string option = "teacher_model_kind";
  if (config.teacher_model_kind == TeacherKind::ema)
    settings.following[kRole] = {config.teacher_sync_steps, config.teacher_update_rate, option};
  if (config.teacher_model_kind == TeacherKind::live) settings.following[kRole] = {1, 1, option};
  return settings;
}

}  // namespace

void Sdft::Config::validate(Problems& problems) const {
  const Config usual;
  check(problems);
  problems.require(teacher_prompt_template.find("{privileged_context}") != std::string::npos, "teacher_prompt_template",
                   "has no {privileged_context}: the teacher would be shown nothing that the model is not");
  const bool moves = teacher_model_kind == TeacherKind::ema;
  problems.require(moves || teacher_update_rate == usual.teacher_update_rate, "teacher_update_rate",
                   "only with teacher_model_kind ema");
  problems.require(moves || teacher_sync_steps == usual.teacher_sync_steps, "teacher_sync_steps",
                   "only with teacher_model_kind ema");
  problems.require(num_loss_tokens_to_skip < max_completion_length, "num_loss_tokens_to_skip",
                   "as many as an answer may have: nothing would be learnt");
}

Sdft::Sdft(const Config& config) : AnswerObjective(settings_of(config), JudgingOptions{config}), config_(config) {}

Needs Sdft::needs() const {
  Needs needs = AnswerObjective::needs();
  needs.models[kRole] = "";
  needs.teacher_prompt = config_.teacher_prompt_template;
  return needs;
}

std::optional<std::vector<std::string>> Sdft::measures() const {
  std::vector<std::string> names = measures_of_answers();
  names.push_back("divergence_loss");
  return names;
}

Groups Sdft::prepare(Group group, StepContext& context) {
  const spans::Span span("rollout");
  context.world.at(fmt::format("step {}, answering", context.step + 1));
  const c10::NoGradGuard no_grad;
  const Judged made = judged(group, context);
  tell(made, context);
  return {learnable(made)};
}

Batch Sdft::prepare_evaluation(Batch batch, StepContext& context) {
  const c10::NoGradGuard no_grad;
  return learnable(judged_for_evaluation(batch, context)).front();
}

// What distillation is made of: the teacher's hidden states where the model's stand, and its head.
std::map<std::string, Tensor> Sdft::document_numbers(const Batch& batch, const Resources& resources) const {
  const RoleModel teacher = resources.model(kRole);
  const CausalLm& lm = require_causal_lm(teacher.model, "objective sdft: the teacher");
  const auto prompts = batch.extra.find(kTeacherPrompt);
  const bool planned = prompts == batch.extra.end();  // as if the teacher read what the model does
  const Batch on_host = planned ? batch : with_prompts(batch, prompts->second);
  const Batch read = on_host.to(batch.ids_BT.device());
  TeacherStates states = teacher_states(lm, teacher.adapter, read, "objective sdft: the model's adapter");
  teacher_soft_cap_ = states.soft_cap;
  if (planned) return states.numbers();
  const Tensor& hidden_BTE = states.hidden_BTE;
  const auto there = [&](const Tensor& labels_BT) { return learnt_places(labels_BT).to(hidden_BTE.device()); };
  const Tensor said_PE = hidden_BTE.flatten(0, 1).index_select(0, there(on_host.labels_BT));
  states.hidden_BTE = at::zeros({batch.rows() * batch.length(), hidden_BTE.size(2)}, hidden_BTE.options())
                          .index_copy_(0, there(batch.labels_BT), said_PE)
                          .view({batch.rows(), batch.length(), -1});
  return states.numbers();
}

Sums Sdft::sums(const Batch& batch) const { return {{kAnswers, static_cast<double>(batch.docs.size())}}; }

// Answers count alike, and within one its tokens.
LossTerms Sdft::loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const {
  const nn::Head& head = model.causal_lm()->head();
  ops::Teacher teacher = divergence_from(batch, teacher_soft_cap_, head.vocab_size());
  teacher.temperature = config_.temperature, teacher.mix = config_.distillation_alpha;
  ops::CrossEntropyOptions options{.teacher = &teacher};
  options.divisor = divisor_of(pass, kAnswers);
  const auto found = batch.extra.find(kShares);
  const Tensor shares_BT = found == batch.extra.end() ? batch.weight_BT : found->second;
  const double square = config_.temperature * config_.temperature;  // which the divergence is multiplied by
  ops::LossSums measured;
  LossTerms result;
  const Tensor sum =
      head.cross_entropy(output.hidden_BTD, batch.labels_BT, shares_BT / square, pass, options, &measured);
  result.terms.push_back({"loss", sum, kAnswers});
  const auto answers = static_cast<double>(batch.docs.size());
  result.means.push_back({"divergence_loss", measured.divergence, at::full_like(measured.divergence, answers)});
  add_answer_means(batch, result);
  return result;
}

std::vector<GivenAnswer> Sdft::answers_to(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                                          const StepContext& context, Environment& environment) const {
  if (!config_.generate_from_teacher) return AnswerObjective::answers_to(asked, each, seed, context, environment);
  std::vector<Asked> shown = asked;
  for (Asked& one : shown) one.ids = one.reference_ids;
  return AnswerObjective::answers_to(shown, each, seed, context, environment);
}

Group Sdft::learnable(const Judged& judged) const {
  const Rollout& rollout = judged.rollout;
  Group group = learnt_from(rollout, columns_of(judged), std::vector<bool>(rollout.answers.size()));
  std::size_t answer = 0;
  for (Batch& batch : group) {
    std::vector<std::vector<std::int32_t>> prompts;
    for (std::size_t i = 0; i < batch.docs.size(); ++i) prompts.push_back(rollout.of(answer++).reference_ids);
    batch.extra[kTeacherPrompt] = padded(prompts);
    batch.extra[kShares] = shares_of(batch);
  }
  return group;
}

// What each learnt token is of its answer's loss, [B, T].
Tensor Sdft::shares_of(const Batch& batch) const {
  Tensor shares_BT = at::zeros_like(batch.weight_BT);
  for (const Doc& doc : batch.docs) {
    const Tensor own = batch.weight_BT[doc.row].slice(0, doc.begin, doc.end).nonzero().squeeze(1) + doc.begin;
    if (own.size(0) <= config_.num_loss_tokens_to_skip) continue;
    const Tensor counted = own.slice(0, config_.num_loss_tokens_to_skip);
    shares_BT[doc.row].index_fill_(0, counted, 1.0 / static_cast<double>(counted.size(0)));
  }
  return shares_BT;
}

void register_sdft(Registries& hone) {
  hone.objectives.add<Sdft>("sdft", "Answer prompts, and learn what the model says of that when it is shown more.");
}

}  // namespace hone::objectives
