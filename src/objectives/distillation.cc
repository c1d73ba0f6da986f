// Distillation (Hinton et al., 2015, arXiv:1503.02531): a model learns what another one, its teacher, expects of each
// next token of given texts. Divergences between the two, from KL(teacher || model) over Jensen and Shannon's to
// KL(model || teacher), are those of Agarwal et al., 2023, arXiv:2306.13649. Or the records bring what the teacher has
// said of its likeliest tokens beforehand.
//
// Letters: B batch, T time, E the teacher's hidden size, V vocabulary, K tokens that were said of a place.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "base/spans.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "objectives/completions.h"
#include "objectives/divisor.h"
#include "objectives/rollouts.h"
#include "objectives/teacher_states.h"
#include "ops/cross_entropy.h"
#include "ops/divergence.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char *kTeacher = "teacher", *kPer = "targets";
constexpr const char *kSaidIds = "taught_ids", *kSaidLogProbs = "taught_log_probs";  // of a batch (hone/batch.h)

class Distillation final : public Objective {
 public:
  struct Config {
    std::string teacher;
    double temperature = 1, beta = 0, alpha = 1, lmbda = 0;
    std::int64_t max_completion_length = 128, num_completions_to_print = 0;
    double top_p = 1, min_p = 0, repetition_penalty = 1;
    bool log_completions = false;
    std::optional<std::int64_t> generation_batch_size, top_k;
    bool teacher_logprobs = false, normalize_topk = false;
    double teacher_temperature = 1;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("teacher", &C::teacher,
                "Folder of the model that is learnt from; it reads tokens as the one that learns does."),
          field("teacher_logprobs", &C::teacher_logprobs,
                "Learn from what a teacher has said beforehand instead: the records' field logprobs, which hone teach "
                "makes."),
          field("top_k", &C::top_k,
                "Of teacher_logprobs so many of each token's, the likeliest; default: all that there are, as many "
                "at each token. With lmbda above 0 answers are drawn among the k likeliest tokens; default: all.",
                config::at_least(1)),
          field("teacher_temperature", &C::teacher_temperature,
                "Temperature that teacher_logprobs were made with, of files that say no other; they are brought to "
                "`temperature`.",
                {.low = 0.01, .high = 100}),
          field("normalize_topk", &C::normalize_topk,
                "With teacher_logprobs the model's probabilities are those among the tokens that they name, and not "
                "of the whole vocabulary: all others are then left as they are."),
          field("temperature", &C::temperature,
                "What both models' logits are divided by: above 1 unlikely tokens count for more. The divergence is "
                "multiplied by its square, so that its gradients stay as large.",
                {.low = 0.01, .high = 100}),
          field("beta", &C::beta,
                "Which divergence: 0 = KL(teacher || model), which covers all that the teacher expects; 1 = KL(model "
                "|| teacher), which keeps to what it expects most; between them generalized Jensen-Shannon.",
                {.low = 0, .high = 1}),
          field("alpha", &C::alpha,
                "Weight of the divergence; the labels' cross-entropy has the rest of 1. 1 = the teacher alone.",
                {.low = 1e-3, .high = 1}),
          field("lmbda", &C::lmbda,
                "Share of steps that learn from the model's own answers to the prompts, drawn at the temperature, "
                "instead of the given ones: what it is then told is what the teacher thinks of its own mistakes.",
                {.low = 0, .high = 1}),
          field("max_completion_length", &C::max_completion_length, "Tokens of such an answer at most.",
                {.low = 1, .high = 1 << 20}),
          field("top_p", &C::top_p,
                "Draw among the likeliest tokens that together have this probability; 1 = all.",
                {.low = 1e-6, .high = 1}),
          field("min_p", &C::min_p, "Leave out tokens less likely than this share of the likeliest one.",
                {.low = 0, .high = 1}),
          field("repetition_penalty", &C::repetition_penalty,
                "Above 1: tokens already in the text become less likely to be drawn.", {.low = 1e-6, .high = 1e6}),
          field("log_completions", &C::log_completions,
                "Write the answers of each step that is logged (trainer.log_every) down in completions.jsonl in the "
                "run folder, with their prompts.",
                OnResume::record),
          field("num_completions_to_print", &C::num_completions_to_print,
                "With log_completions: so many of them in the log as well.", config::at_least(0), OnResume::record),
          field("generation_batch_size", &C::generation_batch_size,
                "Answers that are made at the same time, each with its keys and values in memory; default: all of a "
                "micro-batch.",
                config::at_least(1))};
    }
    void validate(Problems& problems) const {
      const Config standard;
      problems.require(!teacher.empty() || teacher_logprobs, "teacher",
                       "got none, expected the folder of a model to learn from, or teacher_logprobs: true");
      problems.require(teacher.empty() || !teacher_logprobs, "teacher_logprobs",
                       "expected false with a teacher: one of them is learnt from");
      problems.require(teacher_logprobs || lmbda > 0 || !top_k, "top_k",
                       "only with teacher_logprobs, or with lmbda above 0");
      problems.require(teacher_logprobs || !normalize_topk, "normalize_topk", "only with teacher_logprobs");
      problems.require(teacher_logprobs || teacher_temperature == standard.teacher_temperature, "teacher_temperature",
                       "only with teacher_logprobs");
      problems.require(!teacher_logprobs || beta == 0, "beta",
                       "expected 0 with teacher_logprobs: of a few tokens only KL(teacher || model) is one");
      problems.require(!teacher_logprobs || lmbda == 0, "lmbda",
                       "expected 0 with teacher_logprobs: nobody has been asked about the model's own answers");
      const auto drawn = [&](bool as_usual, const char* option) {
        problems.require(lmbda > 0 || as_usual, option, "only with lmbda above 0");
      };
      drawn(max_completion_length == standard.max_completion_length, "max_completion_length");
      drawn(top_p == 1, "top_p");
      drawn(min_p == 0, "min_p");
      drawn(repetition_penalty == 1, "repetition_penalty");
      drawn(!log_completions, "log_completions");
      drawn(!generation_batch_size, "generation_batch_size");
      problems.require(log_completions || num_completions_to_print == 0, "num_completions_to_print",
                       "only with log_completions: true");
      problems.require(lmbda == 0 || alpha == 1, "alpha",
                       "expected 1 with lmbda above 0: what a model has drawn itself is no label");
    }
  };
  explicit Distillation(const Config& config) : config_(config) {}

  Needs needs() const override {
    Needs needs;
    if (config_.teacher_logprobs) {
      needs.teacher_log_probs = config_.top_k.value_or(0);
      needs.teacher_temperature = config_.teacher_temperature;
      return needs;
    }
    needs.models[kTeacher] = config_.teacher;
    needs.models_are_language_models = needs.models_read_same_tokens = true;
    if (config_.lmbda == 0) return needs;
    needs.answers = 1, needs.answer_tokens = config_.max_completion_length;
    needs.answers_at_once = config_.generation_batch_size;
    needs.evaluation_answers = config_.lmbda == 1 ? 1 : 0;
    return needs;
  }
  void check(const Model& model) const override { require_causal_lm(model, "objective distillation"); }
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override {
    return std::vector<std::string>{"divergence_loss", "nll_loss", "accuracy"};
  }

  // Not numbers, but what they are made of: the teacher's hidden states, and its head.
  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override {
    if (config_.teacher_logprobs) return {};
    const RoleModel teacher = resources.model(kTeacher);
    const CausalLm& lm = require_causal_lm(teacher.model, "objective distillation: the teacher");
    const TeacherStates states = teacher_states(lm, teacher.adapter, batch, "objective.teacher: its adapter");
    teacher_soft_cap_ = states.soft_cap;
    return states.numbers();
  }

  Groups prepare(Group group, StepContext& context) override {
    const bool own = Random(context.seed, "distillation/own").uniform(static_cast<std::uint64_t>(context.step)) <
                     config_.lmbda;
    if (!own) return Objective::prepare(std::move(group), context);
    const spans::Span span("rollout");
    context.world.at(fmt::format("step {}, answering", context.step + 1));
    return Objective::prepare(answered(group, seeds_of_step(group, context), context), context);
  }
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    if (config_.lmbda < 1) return batch;
    return answered({batch}, seeds_of_evaluation(batch, context), context).front();
  }

  bool takes_context() const override { return config_.lmbda == 0; }
  Sums sums(const Batch& batch) const override { return {{kPer, host::number(batch.weight_BT.sum(at::kDouble))}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::Head& head = model.causal_lm()->head();
    ops::Teacher teacher;
    ops::Said said;
    if (config_.teacher_logprobs)
      said = said_of(batch), teacher.said = &said;
    else
      teacher = divergence_from(batch, teacher_soft_cap_, head.vocab_size());
    teacher.temperature = config_.temperature, teacher.mix = config_.beta, teacher.weight = config_.alpha;
    ops::CrossEntropyOptions options{.teacher = &teacher};
    options.divisor = divisor_of(pass, kPer);
    ops::LossSums measured;
    LossTerms result;
    const Tensor sum =
        head.cross_entropy(output.hidden_BTD, batch.labels_BT, batch.weight_BT, pass, options, &measured);
    result.terms.push_back({"loss", sum, kPer});
    result.means.push_back({"divergence_loss", measured.divergence, taught_weight(batch, measured.weight)});
    result.means.push_back({"nll_loss", measured.label, measured.weight});
    result.means.push_back({"accuracy", measured.right, measured.weight});
    return result;
  }

 private:
  ops::Said said_of(const Batch& batch) const {
    const auto ids = batch.extra.find(kSaidIds);
    if (ids == batch.extra.end())
      throw Error(ErrorKind::data, "objective.teacher_logprobs: the data have none; expected them at each token");
    return {ids->second.flatten(0, -2), batch.extra.at(kSaidLogProbs).flatten(0, -2), config_.teacher_temperature,
            config_.normalize_topk};
  }

  // Of the tokens that the teacher has said something of; `all`: of all that are learnt.
  Tensor taught_weight(const Batch& batch, const Tensor& all) const {
    if (!config_.teacher_logprobs) return all;
    const Tensor silent_BT = batch.extra.at(kSaidLogProbs).isneginf().all(-1);
    return batch.weight_BT.masked_fill(silent_BT, 0).sum().to(all.scalar_type());
  }

  // The prompts of the micro-batches with the model's own answers.
  Group answered(const Group& group, const SeedOfAnswer& seed, const StepContext& context) const {
    const c10::NoGradGuard no_grad;
    SamplingOptions options;
    options.max_completion_length = config_.max_completion_length, options.temperature = config_.temperature;
    options.top_p = config_.top_p, options.top_k = config_.top_k.value_or(0), options.min_p = config_.min_p;
    options.repetition_penalty = config_.repetition_penalty;
    options.generation_batch_size = config_.generation_batch_size;
    const auto answer = [&](const std::vector<Asked>& asked, const SeedOfAnswer& own) {
      for (const Asked& one : asked) require_prompt(one, context);
      std::vector<GivenAnswer> given;
      for (Generated& one : sample(asked, /*each=*/1, own, options, context)) given.push_back({std::move(one)});
      return given;
    };
    auto [rollout, given] = answered_by(answer, group, /*each=*/1, seed, context);
    take_answers(rollout, given, context);
    if (config_.log_completions) tell_completions(rollout, {}, config_.num_completions_to_print, context);
    return learnt_from(rollout, {}, std::vector<bool>(rollout.answers.size()));
  }

  static void require_prompt(const Asked& asked, const StepContext& context) {
    if (asked.ids.size() > 1) return;
    throw Error(ErrorKind::data, fmt::format("{}: no prompt, as all of its tokens are learnt; expected a prompt and a "
                                             "completion, or messages, of which objective.lmbda has answers made anew",
                                             context.record_name(asked.record)))
        .hint("data.loss: completion or assistant tells prompts apart");
  }

  Config config_;
  mutable double teacher_soft_cap_ = 0;  // of its head, which document_numbers() meets before any loss
};

}  // namespace

void register_distillation(Registries& hone) {
  hone.objectives.add<Distillation>("distillation", "Learn what a teacher model expects of each next token.");
}

}  // namespace hone::objectives
