// What BERT and its relatives have in common: the encoder, and what a model of it is besides its heads.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, S documents.
// Children carry Hugging Face's names.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "hone/layers.h"
#include "models/bert_config.h"
#include "models/first_tokens.h"
#include "nn/plan.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::models {

// What all parts of a model look at.
struct Bert {
  BertConfig config;
  BertShape shape;
  std::int64_t table_width() const { return shape.embedding_size > 0 ? shape.embedding_size : config.hidden_size; }
  nn::Linear::Options linear() const { return {.bias = true, .std = config.initializer_range}; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, config.hidden_dropout_prob, pass, place);
  }
};

// On a device the look-up itself refuses them.
inline void check_token_types(const Tensor& types_BT, std::int64_t count) {
  if (!types_BT.is_cpu() || types_BT.numel() == 0) return;
  const auto highest = static_cast<std::int64_t>(host::own_number(types_BT.max()));
  if (highest >= count)
    throw Error(ErrorKind::data, fmt::format("token type {}: beyond those of the model; expected 0 to {}, by "
                                             "type_vocab_size of config.json",
                                             highest, count - 1))
        .hint("the second text of a pair has type 1");
}

class BertEmbeddings final : public Module {
 public:
  explicit BertEmbeddings(const Bert& bert) : b(bert) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const auto types = batch.extra.find("token_type_ids");
    const Tensor types_BT = types != batch.extra.end() ? types->second : at::zeros_like(batch.ids_BT);
    check_token_types(types_BT, b.config.type_vocab_size);
    const Tensor words_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    const Tensor x_BTD = words_BTD + token_type_embeddings(types_BT, pass);
    const Tensor positions = nn::positions(pass) + b.shape.first_position;
    return b.drop(layer_norm(x_BTD + position_embeddings(positions, pass)), pass, "embeddings");
  }
  nn::Embedding& table(const char* name, std::int64_t rows, std::int64_t no_gradient_id = -1) {
    return child<nn::Embedding>(name, rows, b.table_width(), b.config.initializer_range, no_gradient_id);
  }

  const Bert& b;
  nn::Embedding& word_embeddings = table("word_embeddings", b.config.vocab_size, b.shape.no_gradient_id);
  nn::Embedding& position_embeddings = table("position_embeddings", b.config.max_position_embeddings);
  nn::Embedding& token_type_embeddings = table("token_type_embeddings", b.config.type_vocab_size);
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", b.table_width(), b.config.layer_norm_eps);
};

class BertSelfAttention final : public Module {
 public:
  explicit BertSelfAttention(const Bert& bert) : b(bert) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&query, &key, &value}, pass);
    const auto heads = [&](const Tensor& x) { return x.view({-1, b.config.num_attention_heads, b.shape.head_size}); };
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(b.shape.head_size)),
                                        .mask = ops::Mask::full(),
                                        .dropout = b.config.attention_probs_dropout_prob};
    return nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options).flatten(1).unsqueeze(0);
  }

 private:
  nn::Linear& square(const char* name) {
    return child<nn::Linear>(name, b.config.hidden_size, b.config.hidden_size, b.linear());
  }
  const Bert& b;
  nn::Linear &query = square("query"), &key = square("key"), &value = square("value");
};

// The product that ends a half of a block, and the norm behind the addition to what the half began with.
class BertOutput final : public Module {
 public:
  BertOutput(const Bert& bert, std::int64_t width) : b(bert), width_(width) {}
  Tensor operator()(const Tensor& x_1ND, nn::Residual& residual, Pass& pass, std::string_view place) const {
    residual += b.drop(dense(x_1ND, pass), pass, place);
    return layer_norm(residual);
  }

 private:
  const Bert& b;
  std::int64_t width_;
  nn::Linear& dense = child<nn::Linear>("dense", width_, b.config.hidden_size, b.linear());
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", b.config.hidden_size, b.config.layer_norm_eps);
};

class BertAttention final : public Module {
 public:
  explicit BertAttention(const Bert& bert) : b(bert) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    nn::Residual x(x_1ND);
    return output(self(x_1ND, pass), x, pass, "attention");
  }

 private:
  const Bert& b;
  BertSelfAttention& self = child<BertSelfAttention>("self", b);
  BertOutput& output = child<BertOutput>("output", b, b.config.hidden_size);
};

// A module that is one product.
class BertDense final : public Module {
 public:
  BertDense(const Bert& bert, std::int64_t out)
      : dense(child<nn::Linear>("dense", bert.config.hidden_size, out, bert.linear())) {}
  nn::Linear& dense;
};

class BertLayer final : public Block {
 public:
  BertLayer(const Bert& bert, std::int64_t) : b(bert) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor attended_1ND = attention(x_1ND, pass);
    nn::Residual x(attended_1ND);
    return output(nn::activate(intermediate.dense(attended_1ND, pass), b.shape.activation), x, pass, "mlp");
  }

 private:
  const Bert& b;
  BertAttention& attention = child<BertAttention>("attention", b);
  BertDense& intermediate = child<BertDense>("intermediate", b, b.config.intermediate_size);
  BertOutput& output = child<BertOutput>("output", b, b.config.intermediate_size);
};

class BertEncoder final : public Module {
 public:
  explicit BertEncoder(const Bert& bert)
      : layer(child<nn::Stack<BertLayer>>("layer", bert.config.num_hidden_layers, bert)) {}
  nn::Stack<BertLayer>& layer;
};

struct BertBody final : Module {
  BertBody(const Bert& bert, bool pools) : b(bert) {
    if (pools) pooler = &child<BertDense>("pooler", b, b.config.hidden_size);
  }
  const Bert& b;
  BertEmbeddings& embeddings = child<BertEmbeddings>("embeddings", b);
  BertEncoder& encoder = child<BertEncoder>("encoder", b);
  BertDense* pooler = nullptr;
};

// Which token stood at a place: by the table of words, whose rows are compared with what the place's state becomes.
class BertMaskHead final : public Module {
 public:
  struct Form {
    const char *dense, *norm;  // the children's names
    ops::Activation activation;
  };
  BertMaskHead(const Bert& bert, Weight& words, const Form& form) : b(bert), words_(words), form_(form) {}
  Tensor transformed(const Tensor& hidden, const Pass& pass) const {
    return layer_norm(nn::activate(dense(hidden, pass), form_.activation));
  }

 private:
  const Bert& b;
  Weight& words_;
  const Form form_;
  Weight& bias_ = parameter("bias", {b.config.vocab_size}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  nn::Linear& dense = child<nn::Linear>(form_.dense, b.config.hidden_size, b.config.hidden_size, b.linear());
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>(form_.norm, b.config.hidden_size, b.config.layer_norm_eps);

 public:
  nn::Head& decoder = child<nn::Head>("decoder", b.config.hidden_size, b.config.vocab_size, b.config.initializer_range,
                                      &words_, /*soft_cap=*/0, &bias_);
};

// A model with this encoder, without a classification head: with a head the names of the encoder's weights have a
// prefix.
class BertBase : public Model, public Classifier, public MaskedLm {
 public:
  // pools: whether the encoder has a pooler, as far as no head decides.
  BertBase(const BertConfig& config, const BertShape& shape, const char* prefix, bool pools)
      : b{config, shape}, prefix_(prefix), body(child<BertBody>(b.shape.has_head() ? prefix_.c_str() : "", b, pools)) {}

  Tensor embed(const Batch& batch, Pass& pass) const override { return body.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    const auto& layers = body.encoder.layer.blocks();
    return {layers.begin(), layers.end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return x_1ND; }
  std::int64_t vocab_size() const override { return b.config.vocab_size; }
  std::int64_t max_positions() const override { return b.config.max_position_embeddings - b.shape.first_position; }
  bool positions_are_learned() const override { return true; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{b.config.num_attention_heads, b.shape.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body.encoder.layer.blocks().size(), layer);
  }
  config::Node hf_config() const override {
    const Weight& weight = words();
    return to_hf_config(b.config, b.shape, weight.filled() ? hf_name(weight.use().scalar_type()) : "");
  }

  const std::vector<std::string>& labels() const override { return b.shape.labels.names; }
  std::optional<ProblemType> problem_type() const override { return b.shape.labels.problem_type; }
  bool of_tokens() const override { return b.shape.labels.of_tokens; }
  bool answers_questions() const override { return b.shape.labels.of_answers; }
  std::string weights_prefix() const override { return product_name() + "."; }
  std::string base_prefix() const override { return prefix_ + "."; }

  const MaskedLm* masked_lm() const override { return mask_head_ ? this : nullptr; }
  const nn::Head& mask_head() const override {
    HONE_ASSERT(mask_head_);
    return mask_head_->decoder;
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return mask_head_->transformed(hidden, pass);
  }

  // With a head for masked tokens: what is the table and the bias once more.
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
  Weight& words() const { return body.embeddings.word_embeddings.weight; }
  // The token that stands for its document: [CLS], <s>.
  Tensor first_SD(const Output& output, Pass& pass) const {
    return first_tokens(pass.plan().to_flat(output.hidden_BTD).squeeze(0), pass.plan().documents().spans());
  }
  Tensor drop_for_classifier(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, b.shape.classifier_dropout, pass, place);
  }
  nn::Linear& product_for_labels() {
    return child<nn::Linear>(product_name(), b.config.hidden_size, std::ssize(b.shape.labels.names), b.linear());
  }

  const Bert b;

 private:
  std::string product_name() const { return answers_questions() ? "qa_outputs" : "classifier"; }
  const std::string prefix_;

 protected:
  BertBody& body;
  BertMaskHead* mask_head_ = nullptr;
};

}  // namespace hone::models
