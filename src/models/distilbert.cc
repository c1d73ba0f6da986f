// DistilBERT (Sanh et al., 2019, arXiv:1910.01108): BERT with half of its layers and without token types, alone, with a
// classification head, with one that answers questions, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "distilbert.".
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/encoder_model.h"
#include "models/encoder_parts.h"

namespace hone::models {
namespace {

using config::Node;

constexpr double kNormEps = 1e-12;  // of all norms

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

EncoderShape resolve(const DistilBertConfig& c, Problems& problems) {
  EncoderShape s;
  problems.require(c.dim % c.n_heads == 0, "dim", fmt::format("got {}, expected a multiple of n_heads", c.dim));
  s.heads = c.n_heads, s.head_size = c.dim / c.n_heads;
  const auto dim = static_cast<double>(c.dim);
  check_parameters(static_cast<double>(c.n_layers) * dim * (4 * dim + 2 * static_cast<double>(c.hidden_dim)) +
                       static_cast<double>(c.vocab_size + c.max_position_embeddings) * dim,
                   "dim", problems);
  s.activation = nn::read_activation(c.activation, "activation", problems);
  s.classifier_dropout = c.dropout, s.answers_dropout = c.qa_dropout;
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  read_head(c, c.tie_word_embeddings, s, problems);
  return s;
}

void DistilBertConfig::validate(Problems& problems) const { resolve(*this, problems); }

EncoderShape resolve(const DistilBertConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}

// What all parts of a model look at.
struct Distil {
  DistilBertConfig c;
  EncoderShape s;
  nn::Linear::Options linear() const { return {.bias = true, .std = c.initializer_range}; }
};

class DistilEmbeddings final : public Module {
 public:
  explicit DistilEmbeddings(const Distil& distil) : d(distil) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const Tensor words_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    const Tensor x_BTD = layer_norm(words_BTD + position_embeddings(nn::positions(pass), pass));
    return nn::dropout_embedded(x_BTD, d.c.dropout, pass, "embeddings");
  }

  const Distil& d;
  nn::Embedding& word_embeddings =
      child<nn::Embedding>("word_embeddings", d.c.vocab_size, d.c.dim, d.c.initializer_range, d.s.no_gradient_id);
  nn::Embedding& position_embeddings =
      child<nn::Embedding>("position_embeddings", d.c.max_position_embeddings, d.c.dim, d.c.initializer_range, -1);
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", d.c.dim, kNormEps);
};

class DistilAttention final : public Module {
 public:
  explicit DistilAttention(const Distil& distil) : d(distil) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_lin, &k_lin, &v_lin}, pass);
    return out_lin(attend_in_heads(qkv, d.s, d.c.attention_dropout, pass), pass);
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
  nn::LayerNorm& sa_layer_norm = child<nn::LayerNorm>("sa_layer_norm", d.c.dim, kNormEps);
  nn::Linear& lin1 = child<nn::Linear>("ffn.lin1", d.c.dim, d.c.hidden_dim, d.linear());
  nn::Linear& lin2 = child<nn::Linear>("ffn.lin2", d.c.hidden_dim, d.c.dim, d.linear());
  nn::LayerNorm& output_layer_norm = child<nn::LayerNorm>("output_layer_norm", d.c.dim, kNormEps);
};

struct DistilBody final : Module {
  explicit DistilBody(const Distil& distil) : d(distil) {}
  const Distil& d;
  DistilEmbeddings& embeddings = child<DistilEmbeddings>("embeddings", d);
  nn::Stack<DistilLayer>& layer = child<nn::Stack<DistilLayer>>("transformer.layer", d.c.n_layers, d);
};

class DistilBert final : public EncoderModel {
 public:
  DistilBert(const DistilBertConfig& config, const HeadRequest& head)
      : EncoderModel({"distilbert", "DistilBert", {"vocab_projector", "vocab_projector.bias"}}),
        d{config, resolve(config, head)},
        body_(child<DistilBody>(body_name(), d)) {
    const auto square = [&](const char* name) { return &child<nn::Linear>(name, d.c.dim, d.c.dim, d.linear()); };
    if (!d.s.labels.empty()) {
      if (!of_tokens()) pre_classifier_ = square("pre_classifier");
      add_product(d.c.dim, d.linear());
    }
    if (!d.s.masked_lm) return;
    vocab_transform_ = square("vocab_transform");
    vocab_layer_norm_ = &child<nn::LayerNorm>("vocab_layer_norm", d.c.dim, kNormEps);
    add_mask_product(d.c.dim, d.c.initializer_range);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body_.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    return {body_.layer.blocks().begin(), body_.layer.blocks().end()};
  }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return d.c.max_position_embeddings; }
  config::Node hf_config() const override { return as_hf_config(d.c, {}, {"tie_weights_"}); }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return (*vocab_layer_norm_)(nn::activate((*vocab_transform_)(hidden, pass), d.s.activation));
  }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("pre_classifier.") || weight.starts_with("vocab_");
  }

 private:
  const EncoderShape& shape() const override { return d.s; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    const Tensor x_SD = nn::activate((*pre_classifier_)(first_SD, pass), ops::Activation::relu);
    return product(x_SD, d.c.seq_classif_dropout, pass);
  }

  const Distil d;
  DistilBody& body_;
  nn::Linear *pre_classifier_ = nullptr, *vocab_transform_ = nullptr;
  nn::LayerNorm* vocab_layer_norm_ = nullptr;
};

}  // namespace

void register_distilbert(Registries& hone) {
  hone.models.add<DistilBert, DistilBertConfig>(
      "distilbert",
      "DistilBERT, alone, with a classification head of texts or of tokens, with one that answers questions, or with "
      "one for masked tokens.");
}

}  // namespace hone::models
