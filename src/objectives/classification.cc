// Classification: of each document one label, several, or numbers.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "nn/regression_loss.h"
#include "tensor/host.h"

namespace hone::objectives {

using nn::RegressionLoss;

namespace {

class Classification final : public Objective {
 public:
  struct Config {
    ProblemType problem_type = ProblemType::single_label_classification;
    std::vector<std::string> labels;
    double label_smoothing = 0;
    RegressionLoss regression_loss = RegressionLoss::squared_error;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("problem_type", &C::problem_type,
                "What a text is given: single_label_classification (one label, by cross-entropy), "
                "multi_label_classification (any number of them, each by binary cross-entropy) or regression (a number "
                "for each label, by regression_loss)."),
          field("labels", &C::labels,
                "The labels, in the order of their ids; default: those of the model's head, else those in the training "
                "data. Others than the head's give the model a new head."),
          field("label_smoothing", &C::label_smoothing,
                "Share of each target that is spread over all labels, where a text has one.",
                {.low = 0, .high = 0.999}),
          field("regression_loss", &C::regression_loss,
                "Of regression: squared_error, or binary_cross_entropy of numbers from 0 to 1, as cross-encoders of "
                "sentence-transformers learn them; the sigmoid of what the model then gives is the number.")};
    }
    void validate(Problems& problems) const {
      const bool one = problem_type == ProblemType::single_label_classification;
      problems.require(!one || labels.size() != 1, "labels", "got one, expected at least two");
      problems.require(one || label_smoothing == 0, "label_smoothing",
                       "only single_label_classification spreads its targets; expected 0");
      const bool squared = regression_loss == RegressionLoss::squared_error;
      problems.require(squared || problem_type == ProblemType::regression, "regression_loss",
                       "only with problem_type regression");
      for (std::size_t i = 0; i < labels.size(); ++i)
        problems.require(std::find(labels.begin(), labels.begin() + std::ptrdiff_t(i), labels[i]) ==
                             labels.begin() + std::ptrdiff_t(i),
                         "labels", "\"" + labels[i] + "\" is there twice");
    }
  };
  explicit Classification(const Config& config) : config_(config) {}

  Needs needs() const override {
    return {.records = RecordKind::labelled, .problem_type = config_.problem_type, .labels = config_.labels};
  }
  void check(const Model& model) const override {
    require_classifier(model, "objective classification",
                       config_.problem_type == ProblemType::single_label_classification ? 2 : 1);
  }
  std::vector<std::string> evaluations() const override {
    if (config_.problem_type == ProblemType::regression) return {};
    return {config_.problem_type == ProblemType::multi_label_classification ? "multi_label" : "classification"};
  }
  // Of numbers, measured as they are learnt.
  std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const override {
    if (config_.problem_type != ProblemType::regression) return {};
    config::Choice<Evaluation> numbers;
    Problems problems;
    config::Values<config::Choice<Evaluation>>::read(
        config::Node::map({{"type", config::Node::scalar("regression")},
                           {"regression_loss", config::Values<RegressionLoss>::write(config_.regression_loss)}}),
        numbers, {problems, "regression"});
    problems.raise();
    return {registries().evals.make(numbers)};
  }

  Groups prepare(Group group, StepContext& context) override {
    for (const Batch& batch : group) check_numbers(batch, context);
    return {std::move(group)};
  }
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    check_numbers(batch, context);
    return batch;
  }

  Sums sums(const Batch& batch) const override { return {{"labels", static_cast<double>(batch.docs.size())}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_SL = model.classifier()->logits(output, pass);
    const auto wide = at::toOpMathType(logits_SL.scalar_type());  // fp32 at least
    LossTerms result;
    result.terms.push_back({"loss", sum_of_losses(logits_SL.to(wide), batch.extra.at("label")), "labels"});
    return result;
  }

 private:
  bool is_of_shares() const { return config_.regression_loss == RegressionLoss::binary_cross_entropy; }
  // While the batch lies in host memory. Error(data): a number that is no share.
  void check_numbers(const Batch& batch, const StepContext& context) const {
    const auto label = batch.extra.find("label");
    if (!is_of_shares() || label == batch.extra.end() || !label->second.is_cpu()) return;
    const Tensor numbers = label->second.to(at::kDouble).contiguous();
    const std::span<const double> values = host::values<double>(numbers);
    const std::size_t each = batch.docs.empty() ? 0 : values.size() / batch.docs.size();
    for (std::size_t i = 0; i < batch.docs.size(); ++i)
      if (std::ranges::any_of(values.subspan(i * each, each), [](double x) { return x < 0 || x > 1; }))
        throw Error(ErrorKind::data, fmt::format("{}: label: got a number beyond 0 and 1; objective.regression_loss is "
                                                 "binary_cross_entropy",
                                                 context.record_name(batch.docs[i].record)))
            .hint("scale the numbers, or learn them by squared_error");
  }

  // Over documents; of several labels, or numbers, the mean of a document's.
  Tensor sum_of_losses(const Tensor& logits_SL, const Tensor& label) const {
    if (config_.problem_type == ProblemType::single_label_classification)
      return at::cross_entropy_loss(logits_SL, label, {}, at::Reduction::Sum, /*ignore_index=*/-100,
                                    config_.label_smoothing);
    const Tensor target_SL = label.to(logits_SL.scalar_type());
    const Tensor sum = config_.problem_type == ProblemType::regression && !is_of_shares()
                           ? (logits_SL - target_SL).square().sum()
                           : at::binary_cross_entropy_with_logits(logits_SL, target_SL, {}, {}, at::Reduction::Sum);
    return sum / static_cast<double>(logits_SL.size(1));
  }

  Config config_;
};

}  // namespace

void register_classification(Registries& hone) {
  hone.objectives.add<Classification>("classification",
                                      "Give each text, or pair of texts, one of some labels, several, or numbers.");
}

}  // namespace hone::objectives
