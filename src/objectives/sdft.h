// Self-distillation fine-tuning (Shenfeld et al., 2026, arXiv:2601.19897): a model learns from what it says itself of
// its own answers when its prompt shows it more than it will be shown later, such as a demonstration of the answer.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "objectives/answer_objective.h"

namespace hone::objectives {

// By TRL's names.
enum class TeacherKind {
  base,  // the model as the run began
  live,  // as it is
  ema,   // a moving average of it
};

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::TeacherKind> =
    std::to_array<std::pair<hone::objectives::TeacherKind, std::string_view>>(
        {{hone::objectives::TeacherKind::base, "base"},
         {hone::objectives::TeacherKind::live, "live"},
         {hone::objectives::TeacherKind::ema, "ema"}});

namespace hone::objectives {

// Plug-in (objective sdft).
class Sdft : public AnswerObjective {
 public:
  struct Config : AnsweringOptions {
    using Base = AnsweringOptions;
    std::int64_t num_generations = 1, num_loss_tokens_to_skip = 0, teacher_sync_steps = 1;
    std::optional<std::int64_t> num_generations_eval;
    std::string teacher_prompt_template = "{prompt}\n\n{privileged_context}";
    double distillation_alpha = 0.5, teacher_update_rate = 0.05;
    TeacherKind teacher_model_kind = TeacherKind::base;
    bool generate_from_teacher = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          AnsweringOptions::fields(),
          std::tuple{
              field("num_generations", &C::num_generations, "Answers to each prompt.", config::at_least(1)),
              field("num_generations_eval", &C::num_generations_eval,
                    "The same of held-out prompts; default: num_generations.", config::at_least(1)),
              field("teacher_prompt_template", &C::teacher_prompt_template,
                    "What the model reads as its own teacher: {prompt} is the prompt, or what the user says last in "
                    "it, {privileged_context} the record's answer."),
              field("distillation_alpha", &C::distillation_alpha,
                    "Which divergence: 0 = KL(teacher || model), 1 = KL(model || teacher), between them generalized "
                    "Jensen-Shannon.",
                    {.low = 0, .high = 1}),
              field("num_loss_tokens_to_skip", &C::num_loss_tokens_to_skip,
                    "The first tokens of each answer, which are not learnt: there a teacher likes to speak of what "
                    "it was shown.",
                    config::at_least(0)),
              field("teacher_model_kind", &C::teacher_model_kind,
                    "Which weights the teacher has: those of the model as the run began (base), as they are now "
                    "(live), or a moving average of these (ema). Below a LoRA adapter base alone, which then costs no "
                    "memory."),
              field("teacher_update_rate", &C::teacher_update_rate,
                    "Of ema: the share of the model's weights that the average takes at a time.",
                    {.low = 1e-6, .high = 1}),
              field("teacher_sync_steps", &C::teacher_sync_steps, "Of ema: after how many steps each time.",
                    config::at_least(1)),
              field("generate_from_teacher", &C::generate_from_teacher,
                    "The answers are given to the teacher's prompt, and learnt behind the model's own.")});
    }
    void validate(Problems& problems) const;
  };
  explicit Sdft(const Config& config);
  Needs needs() const override;
  std::optional<std::vector<std::string>> measures() const override;
  Groups prepare(Group group, StepContext& context) override;
  Batch prepare_evaluation(Batch batch, StepContext& context) override;
  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override;
  Sums sums(const Batch& batch) const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;

 protected:
  std::vector<GivenAnswer> answers_to(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                                      const StepContext& context, Environment& environment) const override;

 private:
  Group learnable(const Judged& judged) const;
  Tensor shares_of(const Batch& batch) const;

  const Config config_;
  mutable double teacher_soft_cap_ = 0;  // of its head, which document_numbers() meets before any loss
};

}  // namespace hone::objectives
