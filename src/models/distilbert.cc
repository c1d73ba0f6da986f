// DistilBERT (Sanh et al., 2019, arXiv:1910.01108): BERT with half of its layers and without token types, alone, with a
// classification head, with one that answers questions, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "distilbert.".
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/encoder_head.h"
#include "models/first_tokens.h"
#include "models/label_keys.h"
#include "models/sort_keys.h"
#include "nn/plan.h"
#include "nn/rope.h"
#include "nn/token_ids.h"
#include "tensor/dtype.h"

namespace hone::models {
namespace {

using config::Node;

constexpr double kEps = 1e-12;  // of all norms

struct DistilBertConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "distilbert", activation = "gelu";
  std::int64_t vocab_size = 30522, dim = 768, hidden_dim = 3072, n_layers = 6, n_heads = 12,
               max_position_embeddings = 512;
  double dropout = 0.1, attention_dropout = 0.1, seq_classif_dropout = 0.2, qa_dropout = 0.1, initializer_range = 0.02;
  bool sinusoidal_pos_embds = false, tie_word_embeddings = true;
  std::optional<bool> tie_weights_;
  config::Open bos_token_id, eos_token_id, pad_token_id{Node::scalar("0")};

  static constexpr auto own_fields() {
    using C = DistilBertConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, "distilbert."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("dim", &C::dim, "Width of the residual stream.", size),
        field("hidden_dim", &C::hidden_dim, "Width inside the MLP.", size),
        field("n_layers", &C::n_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("n_heads", &C::n_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("max_position_embeddings", &C::max_position_embeddings,
              "Positions that are learned: no document may be longer.", size),
        field("activation", &C::activation, "Activation of the MLP, by Hugging Face's name."),
        field("dropout", &C::dropout, "Share of hidden numbers that training drops.", share),
        field("attention_dropout", &C::attention_dropout, "Share of attention weights that training drops.", share),
        field("seq_classif_dropout", &C::seq_classif_dropout, "Share that training drops before the classifier.",
              share),
        field("qa_dropout", &C::qa_dropout, "Share that training drops before a head that answers questions.", share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("sinusoidal_pos_embds", &C::sinusoidal_pos_embds,
              "Kept for others: positions of a fresh model begin as normal numbers."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("tie_weights_", &C::tie_weights_, "No effect, in transformers as here."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const;
};

// What it means.
struct DistilBertShape : EncoderHead {
  std::int64_t head_size = 0, no_gradient_id = -1;
  ops::Activation activation = ops::Activation::gelu;
};

DistilBertShape resolve(const DistilBertConfig& c, Problems& problems) {
  DistilBertShape s;
  problems.require(c.dim % c.n_heads == 0, "dim", fmt::format("got {}, expected a multiple of n_heads", c.dim));
  s.head_size = c.dim / c.n_heads;
  const auto dim = static_cast<double>(c.dim);
  check_parameters(static_cast<double>(c.n_layers) * dim * (4 * dim + 2 * static_cast<double>(c.hidden_dim)) +
                       static_cast<double>(c.vocab_size + c.max_position_embeddings) * dim,
                   "dim", problems);
  s.activation = nn::read_activation(c.activation, "activation", problems);
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  read_head(c, c.tie_word_embeddings, s, problems);
  return s;
}

void DistilBertConfig::validate(Problems& problems) const { resolve(*this, problems); }

DistilBertShape resolve(const DistilBertConfig& c, const HeadRequest& head) {
  Problems problems;
  DistilBertShape s = resolve(c, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  problems.raise("the model's configuration");
  return s;
}

// What all parts of a model look at.
struct Distil {
  DistilBertConfig c;
  DistilBertShape s;
  nn::Linear::Options linear() const { return {.bias = true, .std = c.initializer_range}; }
};

class DistilEmbeddings final : public Module {
 public:
  explicit DistilEmbeddings(const Distil& distil) : d(distil) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const Tensor words_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    const Tensor x_BTD = layer_norm(words_BTD + position_embeddings(nn::positions(pass), pass));
    return nn::dropout(x_BTD, d.c.dropout, pass, "embeddings");
  }

  const Distil& d;
  nn::Embedding& word_embeddings =
      child<nn::Embedding>("word_embeddings", d.c.vocab_size, d.c.dim, d.c.initializer_range, d.s.no_gradient_id);
  nn::Embedding& position_embeddings =
      child<nn::Embedding>("position_embeddings", d.c.max_position_embeddings, d.c.dim, d.c.initializer_range, -1);
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", d.c.dim, kEps);
};

class DistilAttention final : public Module {
 public:
  explicit DistilAttention(const Distil& distil) : d(distil) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_lin, &k_lin, &v_lin}, pass);
    const auto heads = [&](const Tensor& x) { return x.view({-1, d.c.n_heads, d.s.head_size}); };
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(d.s.head_size)),
                                        .mask = ops::Mask::full(),
                                        .dropout = d.c.attention_dropout};
    const Tensor seen = nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options);
    return out_lin(seen.flatten(1).unsqueeze(0), pass);
  }

 private:
  nn::Linear& square(const char* name) { return child<nn::Linear>(name, d.c.dim, d.c.dim, d.linear()); }
  const Distil& d;
  nn::Linear &q_lin = square("q_lin"), &k_lin = square("k_lin"), &v_lin = square("v_lin"), &out_lin = square("out_lin");
};

class DistilLayer final : public Block {
 public:
  DistilLayer(const Distil& distil, std::int64_t) : d(distil) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    nn::Residual x(x_1ND);
    x += attention(x_1ND, pass);
    const Tensor attended_1ND = sa_layer_norm(x);
    nn::Residual y(attended_1ND);
    y += nn::dropout(lin2(nn::activate(lin1(attended_1ND, pass), d.s.activation), pass), d.c.dropout, pass, "mlp");
    return output_layer_norm(y);
  }

 private:
  const Distil& d;
  DistilAttention& attention = child<DistilAttention>("attention", d);
  nn::LayerNorm& sa_layer_norm = child<nn::LayerNorm>("sa_layer_norm", d.c.dim, kEps);
  nn::Linear& lin1 = child<nn::Linear>("ffn.lin1", d.c.dim, d.c.hidden_dim, d.linear());
  nn::Linear& lin2 = child<nn::Linear>("ffn.lin2", d.c.hidden_dim, d.c.dim, d.linear());
  nn::LayerNorm& output_layer_norm = child<nn::LayerNorm>("output_layer_norm", d.c.dim, kEps);
};

struct DistilBody final : Module {
  explicit DistilBody(const Distil& distil) : d(distil) {}
  const Distil& d;
  DistilEmbeddings& embeddings = child<DistilEmbeddings>("embeddings", d);
  nn::Stack<DistilLayer>& layer = child<nn::Stack<DistilLayer>>("transformer.layer", d.c.n_layers, d);
};

class DistilBert final : public Model, public Classifier, public MaskedLm {
 public:
  DistilBert(const DistilBertConfig& config, const HeadRequest& head)
      : d{config, resolve(config, head)}, body_(child<DistilBody>(d.s.has_head() ? "distilbert" : "", d)) {
    const auto square = [&](const char* name) { return &child<nn::Linear>(name, d.c.dim, d.c.dim, d.linear()); };
    if (!d.s.labels.empty()) {
      if (!of_tokens()) pre_classifier_ = square("pre_classifier");
      classifier_ = &child<nn::Linear>(answers_questions() ? "qa_outputs" : "classifier", d.c.dim,
                                       std::ssize(d.s.labels.names), d.linear());
    }
    if (!d.s.masked_lm) return;
    vocab_transform_ = square("vocab_transform");
    vocab_layer_norm_ = &child<nn::LayerNorm>("vocab_layer_norm", d.c.dim, kEps);
    Weight& bias =
        parameter("vocab_projector.bias", {d.c.vocab_size}, {.kind = Init::Kind::zeros}, /*decays=*/false);
    vocab_projector_ = &child<nn::Head>("vocab_projector", d.c.dim, d.c.vocab_size, d.c.initializer_range, &words(),
                                        /*soft_cap=*/0, &bias);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body_.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    return {body_.layer.blocks().begin(), body_.layer.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return x_1ND; }
  std::int64_t vocab_size() const override { return d.c.vocab_size; }
  std::int64_t max_positions() const override { return d.c.max_position_embeddings; }
  bool positions_are_learned() const override { return true; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{d.c.n_heads, d.s.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body_.layer.blocks().size(), layer);
  }

  Node hf_config() const override {
    Node node = config::write(d.c);
    std::erase_if(node.entries(), [](const Node::Entry& entry) {
      constexpr const char* kApart[] = {"tie_weights_", "num_labels", "id2label", "label2id", "problem_type"};
      return std::find(std::begin(kApart), std::end(kApart), entry.first) != std::end(kApart);
    });
    const auto text = [](const std::string& value) { return Node::scalar(value, /*quoted=*/true); };
    node.at_or_add("architectures") = Node::list({text(std::string("DistilBert") + d.s.class_end())});
    write_labels(d.s.labels, d.c, node);
    for (const auto& [key, id] : {std::pair{"bos_token_id", &d.c.bos_token_id},
                                  {"eos_token_id", &d.c.eos_token_id},
                                  {"pad_token_id", &d.c.pad_token_id}})
      node.at_or_add(key) = id->node;  // null, too
    for (const auto& [key, value] : {std::pair{"dropout", d.c.dropout},
                                     {"attention_dropout", d.c.attention_dropout},
                                     {"seq_classif_dropout", d.c.seq_classif_dropout},
                                     {"qa_dropout", d.c.qa_dropout},
                                     {"initializer_range", d.c.initializer_range}})
      node.at_or_add(key) = nn::hf_float(value);
    if (words().filled()) node.at_or_add("dtype") = text(hf_name(words().use().scalar_type()));
    sort_keys(node);
    return node;
  }

  const Classifier* classifier() const override { return classifier_ ? this : nullptr; }
  const std::vector<std::string>& labels() const override { return d.s.labels.names; }
  std::optional<ProblemType> problem_type() const override { return d.s.labels.problem_type; }
  bool of_tokens() const override { return d.s.labels.of_tokens; }
  bool answers_questions() const override { return d.s.labels.of_answers; }
  // Of each token, or by the first one of each document, [CLS].
  Tensor logits(const Output& output, Pass& pass) const override {
    const double rate = answers_questions() ? d.c.qa_dropout : d.c.dropout;
    if (of_tokens()) return (*classifier_)(nn::dropout(output.hidden_BTD, rate, pass, "classifier"), pass);
    const Tensor flat_ND = pass.plan().to_flat(output.hidden_BTD).squeeze(0);
    const Tensor first_SD = first_tokens(flat_ND, pass.plan().documents().spans());
    const Tensor x_SD = nn::activate((*pre_classifier_)(first_SD, pass), ops::Activation::relu);
    return (*classifier_)(nn::dropout(x_SD, d.c.seq_classif_dropout, pass, "classifier"), pass);
  }
  std::string weights_prefix() const override { return answers_questions() ? "qa_outputs." : "classifier."; }
  std::string base_prefix() const override { return "distilbert."; }

  const MaskedLm* masked_lm() const override { return vocab_projector_ ? this : nullptr; }
  const nn::Head& mask_head() const override {
    HONE_ASSERT(vocab_projector_);
    return *vocab_projector_;
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return (*vocab_layer_norm_)(nn::activate((*vocab_transform_)(hidden, pass), d.s.activation));
  }
  MaskHeadNames mask_head_names() const override { return {"vocab_projector", "vocab_projector.bias"}; }

  // The table once more.
  bool is_no_weight(const std::string& tensor) const override {
    return vocab_projector_ && tensor == "vocab_projector.weight";
  }
  bool may_be_fresh(const std::string& weight) const override {
    return weight.starts_with("classifier.") || weight.starts_with("pre_classifier.") ||
           weight.starts_with("qa_outputs.") || weight.starts_with("vocab_");
  }

 private:
  Weight& words() const { return body_.embeddings.word_embeddings.weight; }

  const Distil d;
  DistilBody& body_;
  nn::Linear *pre_classifier_ = nullptr, *classifier_ = nullptr, *vocab_transform_ = nullptr;
  nn::LayerNorm* vocab_layer_norm_ = nullptr;
  nn::Head* vocab_projector_ = nullptr;
};

}  // namespace

void register_distilbert(Registries& hone) {
  hone.models.add<DistilBert, DistilBertConfig>(
      "distilbert",
      "DistilBERT, alone, with a classification head of texts or of tokens, with one that answers questions, or with "
      "one for masked tokens.");
}

}  // namespace hone::models
