// Labels of tokens: of words (named entities, parts of speech), or of an answer's steps (process reward models; Uesato
// et al., 2022, arXiv:2211.14275).
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"

namespace hone::objectives {
namespace {

constexpr config::Range kSmoothing{.low = 0, .high = 0.999};
constexpr const char *kSmoothingHelp = "Share of each target that is spread over all labels.",
                     *kLabelsHelp =
                         "The labels, in the order of their ids; default: those of the model's head, else those in the "
                         "training data. Others than the head's give the model a new head. Whole numbers in the data "
                         "count them from 0.";

void check_labels_of_tokens(const std::vector<std::string>& labels, Problems& problems) {
  problems.require(labels.size() != 1, "labels", "got one, expected at least two");
  for (auto one = labels.begin(); one != labels.end(); ++one)
    problems.require(std::find(labels.begin(), one, *one) == one, "labels", "\"" + *one + "\" is there twice");
}

// The mean over all tokens of a step that have a label.
template <class C>
class LabelsOfTokens : public Objective {
 public:
  using Config = C;
  explicit LabelsOfTokens(const C& config) : config_(config) {}

  void check(const Model& model) const override {
    require_token_classifier(model, std::string("objective ") + C::kName);
  }
  std::vector<std::string> evaluations() const override { return {C::kName}; }
  Sums sums(const Batch& batch) const override { return {{"targets", static_cast<double>(batch.supervised)}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_NL = model.classifier()->logits(output, pass).flatten(0, 1);
    const Tensor labels_N = batch.labels_BT.flatten(), counts_N = labels_N.ne(-100);
    LossTerms result;
    result.terms.push_back(
        {"loss", at::cross_entropy_loss(logits_NL.to(at::toOpMathType(logits_NL.scalar_type())), labels_N, {},
                                        at::Reduction::Sum, /*ignore_index=*/-100, config_.label_smoothing)});
    const Tensor right = logits_NL.detach().argmax(-1).eq(labels_N).sum(at::kDouble);
    result.means.push_back({"accuracy", right, counts_N.sum(at::kDouble)});
    return result;
  }

 protected:
  const C config_;
};

struct OfWords {
  static constexpr const char* kName = "token_classification";
  std::vector<std::string> labels;
  bool label_all_tokens = false;
  double label_smoothing = 0;
  static constexpr auto fields() {
    using C = OfWords;
    return std::tuple{field("labels", &C::labels, kLabelsHelp),
                      field("label_all_tokens", &C::label_all_tokens,
                            "Whether each token of a word learns its label (I-x for B-x behind the first), and not the "
                            "first alone."),
                      field("label_smoothing", &C::label_smoothing, kSmoothingHelp, kSmoothing)};
  }
  void validate(Problems& problems) const { check_labels_of_tokens(labels, problems); }
};

class TokenClassification final : public LabelsOfTokens<OfWords> {
 public:
  using LabelsOfTokens::LabelsOfTokens;
  Needs needs() const override {
    return {.records = RecordKind::tagged, .token_labels = {.all = config_.label_all_tokens}, .labels = config_.labels};
  }
};

struct OfSteps {
  static constexpr const char* kName = "process_reward";
  std::vector<std::string> labels;
  std::string step_separator = "\n";
  std::optional<std::int64_t> max_completion_length;
  bool train_on_last_step_only = false;
  double label_smoothing = 0;
  static constexpr auto fields() {
    using C = OfSteps;
    return std::tuple{
        field("labels", &C::labels, kLabelsHelp),
        field("step_separator", &C::step_separator, "What follows each step; its last token learns the step's label."),
        field("max_completion_length", &C::max_completion_length,
              "Most tokens of all steps of an answer together; what is behind is cut off.", at_least(1)),
        field("train_on_last_step_only", &C::train_on_last_step_only,
              "Whether the last step's label alone is learnt; evaluation files are measured on all."),
        field("label_smoothing", &C::label_smoothing, kSmoothingHelp, kSmoothing)};
  }
  void validate(Problems& problems) const { check_labels_of_tokens(labels, problems); }
};

class ProcessReward final : public LabelsOfTokens<OfSteps> {
 public:
  using LabelsOfTokens::LabelsOfTokens;
  Needs needs() const override {
    return {.records = RecordKind::steps,
            .token_labels = {.step_separator = config_.step_separator,
                             .max_completion_length = config_.max_completion_length,
                             .last_step_only = config_.train_on_last_step_only},
            .labels = config_.labels};
  }
};

}  // namespace

void register_token_classification(Registries& hone) {
  hone.objectives.add<TokenClassification>(OfWords::kName,
                                           "Give each word of a text a label: named entities, parts of speech.");
  hone.objectives.add<ProcessReward>(OfSteps::kName,
                                     "Say of each step of an answer whether it is right (a process reward model).");
}

}  // namespace hone::objectives
