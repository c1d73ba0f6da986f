// An encoder as a Model: what its heads are to others, and what they compute.
//
// Letters in tensor names: B batch, T time, D hidden, S documents.
// Alone, an encoder's weights have no prefix; below a head they begin with that of its family.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/encoder_keys.h"
#include "models/first_tokens.h"
#include "models/hf_values.h"
#include "models/sort_keys.h"
#include "nn/plan.h"
#include "nn/rope.h"
#include "tensor/dtype.h"

namespace hone::models {

inline Tensor activated(const Tensor& x, const MaybeActivation& activation) {
  return activation ? nn::activate(x, *activation) : at::tanh(x);
}

// Which token stood at a place: by the table of words, whose rows are compared with what the place's state becomes.
class MaskHead final : public Module {
 public:
  struct Form {
    const char *dense, *norm;  // the children's names
    ops::Activation activation;
    std::int64_t hidden, width;  // width: of the table
    double std, eps;
  };
  MaskHead(Weight& words, const Form& form) : words_(words), form_(form) {}
  Tensor transformed(const Tensor& hidden, const Pass& pass) const {
    return norm(nn::activate(dense(hidden, pass), form_.activation));
  }

 private:
  Weight& words_;
  const Form form_;
  Weight& bias_ = parameter("bias", {words_.shape()[0]}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  nn::Linear& dense =
      child<nn::Linear>(form_.dense, form_.hidden, form_.width, nn::Linear::Options{.bias = true, .std = form_.std});
  nn::LayerNorm& norm = child<nn::LayerNorm>(form_.norm, form_.width, form_.eps);

 public:
  nn::Head& decoder =
      child<nn::Head>("decoder", form_.width, words_.shape()[0], form_.std, &words_, /*soft_cap=*/0, &bias_);
};

// Labels of documents by two products with something between them.
class HeadOfTexts final : public Module {
 public:
  HeadOfTexts(std::int64_t hidden, std::int64_t labels, const nn::Linear::Options& options, double dropout,
              MaybeActivation activation)
      : dropout_(dropout),
        activation_(activation),
        dense(child<nn::Linear>("dense", hidden, hidden, options)),
        out_proj(child<nn::Linear>("out_proj", hidden, labels, options)) {}
  Tensor operator()(const Tensor& x_SD, const Pass& pass) const {
    const Tensor inner_SD = activated(dense(nn::dropout(x_SD, dropout_, pass, "classifier"), pass), activation_);
    return out_proj(nn::dropout(inner_SD, dropout_, pass, "classifier/inner"), pass);
  }

 private:
  const double dropout_;
  const MaybeActivation activation_;
  nn::Linear &dense, &out_proj;
};

// What is an encoder's own: its table of words and its blocks, what a document becomes before labels are told, and the
// form of its heads, which it makes by add_...().
class EncoderModel : public Model, public Classifier, public MaskedLm {
 public:
  // How transformers calls it: the prefix of weights below a head, how the names of its classes begin, and the parts of
  // its head for masked tokens.
  struct Family {
    std::string prefix, classes;
    MaskHeadNames mask_head;
  };
  explicit EncoderModel(Family family) : family_(std::move(family)) {}

  Tensor finish(const Tensor& x_1ND, Pass&) const override { return x_1ND; }
  std::int64_t vocab_size() const override { return words().shape()[0]; }
  bool positions_are_learned() const override { return true; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{shape().heads, shape().head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(blocks().size(), layer);
  }

  const Classifier* classifier() const override { return shape().labels.empty() ? nullptr : this; }
  const std::vector<std::string>& labels() const override { return shape().labels.names; }
  std::optional<ProblemType> problem_type() const override { return shape().labels.problem_type; }
  bool of_tokens() const override { return shape().labels.of_tokens; }
  bool answers_questions() const override { return shape().labels.of_answers; }
  Tensor logits(const Output& output, Pass& pass) const override {
    if (!of_tokens()) return of_documents(first_SD(output, pass), pass);
    return product(output.hidden_BTD, answers_questions() ? shape().answers_dropout : shape().classifier_dropout, pass);
  }
  std::string weights_prefix() const override { return product_name() + "."; }
  std::string base_prefix() const override { return family_.prefix + "."; }

  const MaskedLm* masked_lm() const override { return mask_decoder_ ? this : nullptr; }
  const nn::Head& mask_head() const override {
    HONE_ASSERT(mask_decoder_);
    return *mask_decoder_;
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return mask_head_->transformed(hidden, pass);
  }
  MaskHeadNames mask_head_names() const override { return family_.mask_head; }

  // The table and the bias once more, and numbers that old versions saved.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with("embeddings.position_ids") || tensor.ends_with("embeddings.token_type_ids") ||
           (mask_decoder_ && mask_decoder_->tied() && tensor != family_.mask_head.bias &&
            tensor.starts_with(family_.mask_head.decoder + "."));
  }
  bool may_be_fresh(const std::string& weight) const override {
    const std::string& decoder = family_.mask_head.decoder;
    return weight.starts_with("classifier.") || weight.starts_with("qa_outputs.") ||
           weight.starts_with(decoder.substr(0, decoder.find('.')) + ".") ||
           weight.find("pooler.") != std::string::npos;
  }

 protected:
  virtual const EncoderShape& shape() const = 0;
  virtual Weight& words() const = 0;
  // The scores of labels by [CLS] of each document, where labels are of documents.
  virtual Tensor of_documents(const Tensor& first_SD, const Pass& pass) const { return (*of_texts_)(first_SD, pass); }

  std::string body_name() const { return shape().has_head() ? family_.prefix : ""; }
  virtual std::string product_name() const { return answers_questions() ? "qa_outputs" : "classifier"; }
  // The token that stands for its document: [CLS], <s>.
  Tensor first_SD(const Output& output, Pass& pass) const {
    return first_tokens(pass.plan().to_flat(output.hidden_BTD).squeeze(0), pass.plan().documents().spans());
  }

  // Heads of labels: one product, and, where labels are of documents, two.
  void add_product(std::int64_t hidden, const nn::Linear::Options& options) {
    product_ = &child<nn::Linear>(product_name(), hidden, std::ssize(labels()), options);
  }
  void add_products(std::int64_t hidden, const nn::Linear::Options& options, MaybeActivation activation) {
    if (of_tokens()) return add_product(hidden, options);
    of_texts_ = &child<HeadOfTexts>(product_name(), hidden, std::ssize(labels()), options, shape().classifier_dropout,
                                    activation);
  }
  Tensor product(const Tensor& x, double dropout, const Pass& pass) const {
    return (*product_)(nn::dropout(x, dropout, pass, "classifier"), pass);
  }
  // Heads for masked tokens: one with a product and a norm of its own before the table, and one of a product alone.
  void add_mask_head(const MaskHead::Form& form) {
    const std::string& bias = family_.mask_head.bias;
    mask_head_ = &child<MaskHead>(bias.substr(0, bias.rfind('.')), words(), form);
    mask_decoder_ = &mask_head_->decoder;
  }
  // tied: its matrix is the table of words; else it has one of its own.
  void add_mask_product(std::int64_t width, double std, bool has_bias = true, bool tied = true) {
    const auto& [decoder, bias_name] = family_.mask_head;
    Weight* bias = nullptr;
    if (has_bias) bias = &parameter(bias_name, {vocab_size()}, {.kind = Init::Kind::zeros}, /*decays=*/false);
    mask_decoder_ =
        &child<nn::Head>(decoder, width, vocab_size(), std, tied ? &words() : nullptr, /*soft_cap=*/0, bias);
  }

  // config.json as transformers writes it: labels and ids as the head has them, numbers with a point. more: keys that
  // are no option, or are written otherwise; without: keys that are read and not written.
  template <class Keys>
  config::Node as_hf_config(const Keys& keys, const config::Node& more = {},
                            std::vector<std::string_view> without = {}) const {
    config::Node node = config::write(keys);
    const auto put = [&](const auto& field) {
      using T = std::remove_cvref_t<decltype(keys.*field.member)>;
      const T& value = keys.*field.member;
      if constexpr (std::is_same_v<T, double>) node.at_or_add(std::string(field.name)) = nn::hf_float(value);
      if constexpr (std::is_same_v<T, std::optional<double>>)
        if (value) node.at_or_add(std::string(field.name)) = nn::hf_float(*value);
      if constexpr (std::is_same_v<T, config::Open>)
        if (field.name.ends_with("_token_id")) node.at_or_add(std::string(field.name)) = value.node;  // null, too
    };
    std::apply([&](const auto&... field) { (put(field), ...); }, Keys::fields());
    without.insert(without.end(), {"num_labels", "id2label", "label2id", "problem_type", "sentence_transformers",
                                   "sbert_ce_default_activation_function"});
    std::erase_if(node.entries(),
                  [&](const auto& entry) { return std::ranges::find(without, entry.first) != without.end(); });
    node.at_or_add("architectures") = config::Node::list({hf_text(family_.classes + shape().class_end())});
    write_labels(shape().labels, keys, node);
    if (more.is_map())
      for (const auto& [key, value] : more.entries()) node.at_or_add(key) = value;
    if (words().filled()) node.at_or_add("dtype") = hf_text(hf_name(words().use().scalar_type()));
    sort_keys(node);
    return node;
  }

 private:
  const Family family_;
  nn::Linear* product_ = nullptr;
  HeadOfTexts* of_texts_ = nullptr;
  MaskHead* mask_head_ = nullptr;
  nn::Head* mask_decoder_ = nullptr;
};

}  // namespace hone::models
