// Objectives that make vectors of texts: what those of a whole step say of each other is learnt.
//
// All pairs of a step are compared with each other, whatever its micro-batches and ranks: their vectors are made
// without a graph first, and what the step's loss says of each of them is then learnt micro-batch by micro-batch
// (GradCache: Gao et al., 2021, arXiv:2101.06983).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "objectives/embedding_losses.h"
#include "objectives/embedding_step.h"

namespace hone::objectives {

// Of each pair, or of each triplet: the loss, with a graph, and what is logged, by name, without one.
struct TextLosses {
  Tensor loss;
  std::map<std::string, Tensor> means = {};
};

// The passes that a step's texts take before they are learnt, without a graph: what `one` makes of each micro-batch,
// [documents, numbers] each. model: who makes them; where ranks share it out, those with fewer take part in others'.
std::vector<Tensor> of_all_batches(const Group& group, const Model& model, const World& world,
                                   const std::function<Tensor(const Batch& batch, std::size_t i)>& one);

class TextObjective : public Objective {
 public:
  std::vector<std::string> evaluations() const override { return {}; }
  Sums sums(const Batch& batch) const override;
  Groups prepare(Group group, StepContext& context) override;
  Batch prepare_evaluation(Batch batch, StepContext& context) override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;

 protected:
  virtual EmbeddingLoss loss_type() const = 0;
  // Whether what a text learns depends on others of the step.
  virtual bool is_joint() const { return compares_pairs(loss_type()); }
  virtual Tensor vectors(const Model& model, const Output& output, const Batch& batch, Pass& pass) const = 0;
  // texts: of vectors of this model.
  virtual TextLosses losses(const EmbeddedTexts& texts, const Model& model) const = 0;

 private:
  void add_ids(Batch& batch, const StepContext& context) const;
  void check_label(const Doc& doc, bool labelled, const StepContext& context) const;
  void check_score(const Doc& doc, const std::optional<double>& score, const StepContext& context) const;
  [[noreturn]] void refuse(const Doc& doc, const std::string& fact, const char* advice,
                           const StepContext& context) const;
  StepTexts texts_of_step(const Group& group, StepContext& context) const;
  void add_slopes(Group& group, StepContext& context) const;
};

}  // namespace hone::objectives
