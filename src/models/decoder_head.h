// Decoders that are no relatives of Llama, with the head that config.json says, or that is asked for: a language
// model's, or one for labels.
//
// Letters in tensor names: B batch, T time, D hidden.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/layers.h"
#include "models/label_keys.h"
#include "models/last_tokens.h"

namespace hone::models {

class DecoderWithHead : public CausalLm, public Classifier {
 public:
  const CausalLm* causal_lm() const final { return lm_head_ ? this : nullptr; }
  const nn::Head& head() const final {
    HONE_ASSERT(lm_head_);
    return *lm_head_;
  }
  const Classifier* classifier() const final { return classifier_ ? this : nullptr; }
  const std::vector<std::string>& labels() const final { return labels_.names; }
  std::optional<ProblemType> problem_type() const final { return labels_.problem_type; }
  bool of_tokens() const final { return labels_.of_tokens; }
  Tensor logits(const Output& output, Pass& pass) const final {
    if (!of_tokens()) return (*classifier_)(last_tokens(output.hidden_BTD, pass.batch), pass);
    return (*classifier_)(nn::dropout(output.hidden_BTD, classifier_dropout_, pass, "classifier"), pass);
  }
  std::string weights_prefix() const final { return std::string(classifier_name()) + "."; }
  bool may_be_fresh(const std::string& weight) const final {
    return weight == lm_head_name_ + ".weight" || weight.starts_with(weights_prefix());
  }

 protected:
  DecoderWithHead(const LabelKeys& config, const HeadRequest& head) : labels_(labels_of(config, head)) {}

  struct HeadForm {
    std::string lm_head;  // what a language model's is called
    std::int64_t hidden = 0, vocab = 0;
    double std = 0.02;
    Weight* tied = nullptr;         // the table whose weight a language model's head has; null: one of its own
    double classifier_dropout = 0;  // of what a head for labels of tokens reads
  };
  // REQUIRES: called once, behind the body's weights, which come before the head's in files.
  void make_head(const HeadForm& form) {
    lm_head_name_ = form.lm_head, classifier_dropout_ = form.classifier_dropout;
    if (labels_.empty())
      lm_head_ = &child<nn::Head>(form.lm_head, form.hidden, form.vocab, form.std, form.tied);
    else
      classifier_ = &child<nn::Linear>(classifier_name(), form.hidden, std::ssize(labels_.names),
                                       nn::Linear::Options{.bias = of_tokens(), .std = form.std});
  }
  const HeadLabels& head_labels() const { return labels_; }

 private:
  const char* classifier_name() const { return of_tokens() ? "classifier" : "score"; }
  static HeadLabels labels_of(const LabelKeys& config, const HeadRequest& head) {
    Problems problems;
    HeadLabels labels = read_labels(config, problems);
    problems.raise("the model's configuration");
    if (!head.labels.empty()) ask_for(head, labels);
    return labels;
  }

  const HeadLabels labels_;
  std::string lm_head_name_;
  double classifier_dropout_ = 0;
  nn::Head* lm_head_ = nullptr;  // one of the two
  nn::Linear* classifier_ = nullptr;
};

}  // namespace hone::models
