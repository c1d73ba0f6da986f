// Goldens with a classification head (tools/golden/golden_bert.py, golden_decoder_classifiers.py).
#pragma once

#include <gtest/gtest.h>

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

// A folder with a head of labels, of texts or of tokens, and what is asked of each.
class HeadGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  bool of_tokens() const { return model_->classifier()->of_tokens(); }

  void expect_hidden_states_logits_and_loss() {
    const at::NoGradGuard no_graph;
    EXPECT_EQ(of_tokens(), GetParam().name.starts_with("tokens-"));
    Pass pass(batch_);
    const Output output = model_->forward(batch_, pass);
    expect_close(output.hidden_BTD * seen_BT1_, golden_["hidden"], 1e-5 * std::max(1.0, largest(golden_["hidden"])),
                 "hidden");
    const Tensor logits = model_->classifier()->logits(output, pass);
    expect_close(of_tokens() ? logits * seen_BT1_ : logits, golden_["logits"],
                 1e-5 * std::max(1.0, largest(golden_["logits"])), "logits");
    const double expected = golden_["loss"].item<double>();
    EXPECT_NEAR(classification_loss(*model_, batch_, pass).item<double>(), expected, 1e-6 * std::max(1.0, expected));
  }

  void expect_every_gradient() {
    Pass pass(batch_);
    classification_loss(*model_, batch_, pass).backward();
    expect_golden_gradients(*model_, golden_, floor_of_classifiers);
  }

  void expect_ten_steps() {
    expect_ten_golden_steps(
        *model_, batch_, golden_["ten_losses"], [&](Pass& pass) { return classification_loss(*model_, batch_, pass); },
        /*training=*/false);
  }

  // Documents that share a row have the logits that they have alone.
  void expect_packed_as_padded() {
    const at::NoGradGuard no_graph;
    Batch packed;
    std::vector<Tensor> ids, positions, expected;
    std::int32_t begin = 0;
    for (const Doc& doc : batch_.docs) {
      const std::int32_t length = doc.end - doc.begin;
      ids.push_back(batch_.ids_BT[doc.row].slice(0, doc.begin, doc.end));
      positions.push_back(at::arange(length));
      if (of_tokens()) expected.push_back(golden_["logits"][doc.row].slice(0, doc.begin, doc.end));
      packed.docs.push_back({.row = 0, .begin = begin, .end = begin + length});
      begin += length;
    }
    packed.ids_BT = at::cat(ids).unsqueeze(0), packed.positions_BT = at::cat(positions).unsqueeze(0);
    Pass pass(packed);
    const Tensor made = model_->classifier()->logits(model_->forward(packed, pass), pass);
    expect_close(of_tokens() ? made[0] : made, of_tokens() ? at::cat(expected) : golden_["logits"],
                 1e-5 * std::max(1.0, largest(golden_["logits"])), "packed");
  }

  void expect_config() {
    std::set<std::string> but{"transformers_version"};
    // What hone does not write of it, or only where it is said.
    if (GetParam().name.ends_with("gpt2")) but.insert({"dtype", "use_cache", "n_inner", "summary_activation"});
    expect_same_config(kClassifiers / GetParam().name, *model_, but);
  }

  ops::LevelScope scope_{GetParam().level()};
  std::map<std::string, Tensor> golden_ = read_all(kClassifiers / GetParam().name / "golden.safetensors");
  std::unique_ptr<Model> model_ = load_classifier(GetParam().name);
  Batch batch_ = of_tokens() ? token_batch_of(golden_) : batch_of(golden_);
  Tensor seen_BT1_ = golden_.at("attention_mask").unsqueeze(-1);
};

}  // namespace hone::test
