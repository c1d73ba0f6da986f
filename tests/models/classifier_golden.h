// Goldens with a classification head (tools/golden/golden_bert.py, golden_decoder_classifiers.py).
#pragma once

#include <optional>

#include "hone/objective.h"
#include "hone/registry.h"
#include "models/golden_checks.h"

namespace hone::test {

inline const std::filesystem::path kClassifiers = "tests/golden/classifiers";

inline std::unique_ptr<Model> load_classifier(const std::string& name, const HeadRequest& head = {},
                                              const std::optional<FreshWeights>& fresh = {},
                                              const std::string& weights = "") {
  const std::string file = (kClassifiers / name / "config.json").string();
  std::unique_ptr<Model> model = build_model(config::read_file(file), file, head);
  load_weights(*model, kClassifiers / (weights.empty() ? name : weights), Precision::fp32, fresh);
  return model;
}

inline Batch batch_of(const std::map<std::string, Tensor>& golden) {
  Batch batch =
      make_batch(golden.at("input_ids"), at::full_like(golden.at("input_ids"), -100), golden.at("attention_mask"));
  if (golden.contains("token_type_ids")) batch.extra["token_type_ids"] = golden.at("token_type_ids");
  const Tensor& labels = golden.at("labels");
  const bool single = labels.scalar_type() == at::kLong;
  batch.extra["label"] = single ? labels : labels.to(at::kDouble).reshape({labels.size(0), -1});
  return batch;
}

// Of a head for tokens: labels are of the tokens that they stand at.
inline Batch token_batch_of(const std::map<std::string, Tensor>& golden) {
  Batch batch =
      make_batch(golden.at("input_ids"), at::full_like(golden.at("input_ids"), -100), golden.at("attention_mask"));
  batch.labels_BT = golden.at("labels");
  batch.weight_BT = batch.labels_BT.ne(-100).to(at::kFloat);
  batch.supervised = batch.weight_BT.sum().item<std::int64_t>();
  return batch;
}

// Of what the model's head is for.
inline std::unique_ptr<Objective> classification(const Model& model) {
  const auto& known = registries().objectives;
  if (model.classifier()->of_tokens()) {
    auto objective = known.make({"token_classification", known.options("token_classification")});
    objective->check(model);
    return objective;
  }
  config::Choice<Objective> choice{"classification", known.options("classification")};
  if (const auto said = model.classifier()->problem_type()) {
    config::Node options = config::Node::map();
    options.at_or_add("problem_type") = config::Values<ProblemType>::write(*said);
    Problems problems;
    choice.options->read(options, problems, "objective");
    problems.raise();
  }
  return known.make(choice);
}

// counted: the batch on the host, where its documents are counted.
inline Tensor classification_loss(const Model& model, const Batch& batch, const Batch& counted, Pass& pass) {
  const auto objective = classification(model);
  const LossTerms terms = objective->loss(model, model.forward(batch, pass), batch, pass);
  return terms.terms.at(0).sum / objective->sums(counted).at(terms.terms[0].per);
}
inline Tensor classification_loss(const Model& model, const Batch& batch, Pass& pass) {
  return classification_loss(model, batch, batch, pass);
}

// A key's bias moves all scores of a query alike, which softmax does not see: its gradient is rounding alone.
inline double floor_of_keys(const std::string& weight) {
  for (const char* end : {"key.bias", "k_lin.bias", "key_proj.bias", "attn.k.bias", "k_proj.bias"})
    if (weight.ends_with(end)) return 1e-1;
  return 1e-3;
}
inline double floor_of_classifiers(const std::string& weight) { return floor_of_keys(weight); }

}  // namespace hone::test
