// What BERT and its relatives have in common: the encoder, and what a model of it is besides its heads.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names.
#pragma once

#include <memory>
#include <utility>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/bert_config.h"
#include "models/encoder_model.h"
#include "models/encoder_parts.h"
#include "models/llama_attention.h"
#include "nn/plan.h"
#include "nn/rope.h"

namespace hone::models {

// What all parts of a model look at.
struct Bert {
  Bert(const BertConfig& c, const BertShape& s) : config(c), shape(s) {
    nn::RopeConfig of_angles;
    of_angles.rope_theta = s.rope_theta;
    if (s.rotates) rope = std::make_shared<nn::Rope>(of_angles, s.head_size, c.max_position_embeddings);
  }
  BertConfig config;
  BertShape shape;
  std::shared_ptr<const nn::Rope> rope;  // null: nothing is rotated
  std::int64_t table_width() const { return shape.embedding_size > 0 ? shape.embedding_size : config.hidden_size; }
  nn::Linear::Options linear() const { return {.bias = true, .std = config.initializer_range}; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, config.hidden_dropout_prob, pass, place);
  }
};

class BertEmbeddings final : public Module {
 public:
  explicit BertEmbeddings(const Bert& bert) : b(bert) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const Tensor words_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    Tensor x_BTD = words_BTD + embedded_types(token_type_embeddings, b.config.type_vocab_size, batch, pass);
    if (position_embeddings)
      x_BTD = x_BTD + (*position_embeddings)(nn::positions(pass) + b.shape.first_position, pass);
    if (task_type_embeddings) x_BTD = x_BTD + (*task_type_embeddings)(at::zeros_like(batch.ids_BT), pass);
    return nn::dropout_embedded(layer_norm ? (*layer_norm)(x_BTD) : x_BTD, b.config.hidden_dropout_prob, pass,
                                "embeddings");
  }
  nn::Embedding& table(const char* name, std::int64_t rows, std::int64_t no_gradient_id = -1) {
    return child<nn::Embedding>(name, rows, b.table_width(), b.config.initializer_range, no_gradient_id);
  }

  const Bert& b;
  nn::Embedding& word_embeddings = table("word_embeddings", b.config.vocab_size, b.shape.no_gradient_id);
  nn::Embedding* position_embeddings =
      b.shape.learns_positions ? &table("position_embeddings", b.config.max_position_embeddings) : nullptr;
  nn::Embedding& token_type_embeddings = table("token_type_embeddings", b.config.type_vocab_size);
  nn::Embedding* task_type_embeddings =
      b.shape.task_types > 0 ? &table("task_type_embeddings", b.shape.task_types) : nullptr;
  nn::LayerNorm* layer_norm =
      b.shape.norms_embeddings ? &child<nn::LayerNorm>("LayerNorm", b.table_width(), b.config.layer_norm_eps) : nullptr;
};

class BertSelfAttention final : public Module {
 public:
  explicit BertSelfAttention(const Bert& bert) : b(bert) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    auto qkv = nn::linears(x_1ND, {&query, &key, &value}, pass);
    if (b.rope) qkv[0] = rotated(qkv[0], pass), qkv[1] = rotated(qkv[1], pass);
    return attend_in_heads(qkv, b.shape, b.config.attention_probs_dropout_prob, pass);
  }

 private:
  nn::Linear& square(const char* name) {
    return child<nn::Linear>(name, b.config.hidden_size, b.config.hidden_size, b.linear());
  }
  Tensor rotated(const Tensor& x_1ND, Pass& pass) const {
    const Tensor x_NHK = x_1ND.view({-1, b.shape.heads, b.shape.head_size});
    const ops::RopeTable& table = pass.plan().rope(*b.rope, x_NHK);
    return partly_rotated(x_NHK, b.shape.head_size, b.shape.rotates_neighbours, table).flatten(1);
  }
  const Bert& b;
  nn::Linear &query = square("query"), &key = square("key"), &value = square("value");
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
  EncoderOutput& output = child<EncoderOutput>("output", b.config, b.config.hidden_size);
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
  EncoderOutput& output = child<EncoderOutput>("output", b.config, b.config.intermediate_size);
};

class BertEncoder final : public Module {
 public:
  explicit BertEncoder(const Bert& bert)
      : layer(child<nn::Stack<BertLayer>>("layer", bert.config.num_hidden_layers, bert)) {}
  nn::Stack<BertLayer>& layer;
};

struct BertBody final : Module {
  BertBody(const Bert& bert, bool pools) : b(bert), embeddings(child<BertEmbeddings>("embeddings", b)) {
    const std::int64_t hidden = b.config.hidden_size;
    if (b.shape.always_projects || b.table_width() != hidden)
      embeddings_project = &child<nn::Linear>(b.shape.projection, b.table_width(), hidden, b.linear());
    encoder = &child<BertEncoder>("encoder", b);
    if (pools) pooler = &child<BertDense>("pooler", b, hidden);
  }
  const Bert& b;
  BertEmbeddings& embeddings;
  nn::Linear* embeddings_project = nullptr;
  BertEncoder* encoder = nullptr;
  BertDense* pooler = nullptr;
};

// A model with this encoder.
class BertBase : public EncoderModel {
 public:
  // pools: whether the encoder has a pooler.
  BertBase(Family family, const BertConfig& config, const BertShape& shape, bool pools)
      : EncoderModel(std::move(family)), b{config, shape}, body(child<BertBody>(body_name(), b, pools)) {}

  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = body.embeddings(batch, pass);
    return body.embeddings_project ? (*body.embeddings_project)(x_BTD, pass) : x_BTD;
  }
  std::vector<const Block*> blocks() const override {
    const auto& layers = body.encoder->layer.blocks();
    return {layers.begin(), layers.end()};
  }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return b.config.max_position_embeddings - b.shape.first_position; }
  config::Node hf_config() const override { return with_bert_keys(b.config); }

 protected:
  const EncoderShape& shape() const override { return b.shape; }
  Weight& words() const override { return body.embeddings.word_embeddings.weight; }
  MaskHead::Form mask_form(const char* dense, const char* norm, ops::Activation activation) const {
    const BertConfig& c = b.config;
    return {dense, norm, activation, c.hidden_size, b.table_width(), c.initializer_range, c.layer_norm_eps};
  }
  template <class Keys>
  config::Node with_bert_keys(const Keys& keys) const {
    config::Node more = config::Node::map();
    more.at_or_add("use_cache") = config::Values<bool>::write(true);
    if (!keys.classifier_dropout) more.at_or_add("classifier_dropout") = config::Node();
    return as_hf_config(keys, more, {"position_embedding_type"});
  }

  const Bert b;
  BertBody& body;
};

}  // namespace hone::models
