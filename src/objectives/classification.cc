// Classification: cross-entropy of each document's label.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"

namespace hone::objectives {
namespace {

class Classification final : public Objective {
 public:
  struct Config {
    std::vector<std::string> labels;
    double label_smoothing = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("labels", &C::labels,
                "The labels, in the order of their ids; default: those of the model's head, else those in the training "
                "data. Others than the head's give the model a new head."),
          field("label_smoothing", &C::label_smoothing, "Share of each target that is spread over all labels.",
                {.low = 0, .high = 0.999})};
    }
    void validate(Problems& problems) const {
      problems.require(labels.size() != 1, "labels", "got one, expected at least two");
      for (std::size_t i = 0; i < labels.size(); ++i)
        problems.require(std::find(labels.begin(), labels.begin() + std::ptrdiff_t(i), labels[i]) ==
                             labels.begin() + std::ptrdiff_t(i),
                         "labels", "\"" + labels[i] + "\" is there twice");
    }
  };
  explicit Classification(const Config& config) : config_(config) {}

  Needs needs() const override { return {.records = RecordKind::labelled, .labels = config_.labels}; }
  void check(const Model& model) const override { require_classifier(model, "objective classification"); }
  std::vector<std::string> evaluations() const override { return {"classification"}; }

  Sums sums(const Batch& batch) const override { return {{"labels", static_cast<double>(batch.docs.size())}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_SL = model.classifier()->logits(output, pass);
    const auto wide = at::toOpMathType(logits_SL.scalar_type());  // fp32 at least
    LossTerms result;
    result.terms.push_back({"loss",
                            at::cross_entropy_loss(logits_SL.to(wide), batch.extra.at("label"), {}, at::Reduction::Sum,
                                                   /*ignore_index=*/-100, config_.label_smoothing),
                            "labels"});
    return result;
  }

 private:
  Config config_;
};

}  // namespace

void register_classification(Registries& hone) {
  hone.objectives.add<Classification>("classification", "Give each text, or pair of texts, one of some labels.");
}

}  // namespace hone::objectives
