// An encoder as a Model: what its heads are to others, and the parts that heads have in common.
//
// Letters in tensor names: D hidden, S documents.
// Alone, an encoder's weights have no prefix; below a head they begin with that of its family.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/encoder_head.h"
#include "models/first_tokens.h"
#include "models/sort_keys.h"
#include "nn/plan.h"
#include "nn/rope.h"
#include "tensor/dtype.h"

namespace hone::models {

// Which token stood at a place: by the table of words, whose rows are compared with what the place's state becomes.
class MaskHead final : public Module {
 public:
  struct Form {
    const char *dense, *norm;  // the children's names
    ops::Activation activation;
    std::int64_t hidden, width;  // width: of the table
    double std, eps;
  };
  MaskHead(Weight& words, std::int64_t vocab_size, const Form& form)
      : words_(words), vocab_size_(vocab_size), form_(form) {}
  Tensor transformed(const Tensor& hidden, const Pass& pass) const {
    return norm(nn::activate(dense(hidden, pass), form_.activation));
  }

 private:
  Weight& words_;
  const std::int64_t vocab_size_;
  const Form form_;
  Weight& bias_ = parameter("bias", {vocab_size_}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  nn::Linear& dense =
      child<nn::Linear>(form_.dense, form_.hidden, form_.width, nn::Linear::Options{.bias = true, .std = form_.std});
  nn::LayerNorm& norm = child<nn::LayerNorm>(form_.norm, form_.width, form_.eps);

 public:
  nn::Head& decoder = child<nn::Head>("decoder", form_.width, vocab_size_, form_.std, &words_, /*soft_cap=*/0, &bias_);
};

// Two products with something between them.
class HeadOfTexts final : public Module {
 public:
  HeadOfTexts(std::int64_t hidden, std::int64_t labels, const nn::Linear::Options& options)
      : dense(child<nn::Linear>("dense", hidden, hidden, options)),
        out_proj(child<nn::Linear>("out_proj", hidden, labels, options)) {}
  nn::Linear &dense, &out_proj;
};

class EncoderModel : public Model, public Classifier, public MaskedLm {
 public:
  // head: of the model that is made, which keeps it.
  EncoderModel(const EncoderHead& head, std::string prefix) : head_of_(head), prefix_(std::move(prefix)) {}

  Tensor finish(const Tensor& x_1ND, Pass&) const override { return x_1ND; }
  bool positions_are_learned() const override { return true; }

  const Classifier* classifier() const override { return head_of_.labels.empty() ? nullptr : this; }
  const std::vector<std::string>& labels() const override { return head_of_.labels.names; }
  std::optional<ProblemType> problem_type() const override { return head_of_.labels.problem_type; }
  bool of_tokens() const override { return head_of_.labels.of_tokens; }
  bool answers_questions() const override { return head_of_.labels.of_answers; }
  std::string weights_prefix() const override { return head_of_.labels.of_answers ? "qa_outputs." : "classifier."; }
  std::string base_prefix() const override { return prefix_ + "."; }

  const MaskedLm* masked_lm() const override { return mask_head_ ? this : nullptr; }
  const nn::Head& mask_head() const override {
    HONE_ASSERT(mask_head_);
    return mask_head_->decoder;
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return mask_head_->transformed(hidden, pass);
  }

  // The table and the bias once more, and numbers that old versions saved.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with("embeddings.position_ids") || tensor.ends_with("embeddings.token_type_ids") ||
           (mask_head_ && tensor.starts_with(mask_head_names().decoder + "."));
  }
  bool may_be_fresh(const std::string& weight) const override {
    const std::string decoder = mask_head_names().decoder;
    return weight.starts_with("classifier.") || weight.starts_with("qa_outputs.") ||
           weight.starts_with(decoder.substr(0, decoder.find('.') + 1)) || weight.find("pooler.") != std::string::npos;
  }

 protected:
  virtual Weight& words() const = 0;
  std::string body_name() const { return head_of_.has_head() ? prefix_ : ""; }
  // The token that stands for its document: [CLS], <s>.
  Tensor first_SD(const Output& output, Pass& pass) const {
    return first_tokens(pass.plan().to_flat(output.hidden_BTD).squeeze(0), pass.plan().documents().spans());
  }

  // `node`: the keys of the model's own configuration. Of these, labels and ids are put as the head has them; the keys
  // named `reals` are numbers with a point.
  config::Node as_hf_config(config::Node node, const std::string& classes, const LabelKeys& keys,
                            std::initializer_list<std::pair<const char*, double>> reals,
                            std::initializer_list<std::pair<const char*, config::Node>> ids) const {
    std::erase_if(node.entries(), [](const config::Node::Entry& entry) {
      constexpr const char* kApart[] = {"num_labels", "id2label", "label2id", "problem_type"};
      return std::find(std::begin(kApart), std::end(kApart), entry.first) != std::end(kApart);
    });
    const auto text = [](const std::string& value) { return config::Node::scalar(value, /*quoted=*/true); };
    node.at_or_add("architectures") = config::Node::list({text(classes + head_of_.class_end())});
    write_labels(head_of_.labels, keys, node);
    for (const auto& [key, id] : ids) node.at_or_add(key) = id;  // null, too
    for (const auto& [key, value] : reals) node.at_or_add(key) = nn::hf_float(value);
    if (words().filled()) node.at_or_add("dtype") = text(hf_name(words().use().scalar_type()));
    sort_keys(node);
    return node;
  }

  MaskHead* mask_head_ = nullptr;

 private:
  const EncoderHead& head_of_;
  const std::string prefix_;
};

}  // namespace hone::models
