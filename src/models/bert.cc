// BERT (Devlin et al., 2018): an encoder that reads in both directions, alone, with a classification head, or with one
// for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, S documents, L labels.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "bert.".
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "models/bert_config.h"
#include "nn/plan.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::models {
namespace {

// What all parts of a model look at.
struct Bert {
  BertConfig config;
  BertShape shape;
  nn::Linear::Options linear() const { return {.bias = true, .std = config.initializer_range}; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, config.hidden_dropout_prob, pass, place);
  }
};

// On a device the look-up itself refuses them.
void check_token_types(const Tensor& types_BT, std::int64_t count) {
  if (!types_BT.is_cpu() || types_BT.numel() == 0) return;
  const auto highest = static_cast<std::int64_t>(host::own_number(types_BT.max()));
  if (highest >= count)
    throw Error(ErrorKind::data, fmt::format("token type {}: beyond those of the model; expected 0 to {}, by "
                                             "type_vocab_size of config.json",
                                             highest, count - 1))
        .hint("the second text of a pair has type 1");
}

class Embeddings final : public Module {
 public:
  explicit Embeddings(const Bert& bert) : b(bert) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const auto types = batch.extra.find("token_type_ids");
    const Tensor types_BT = types != batch.extra.end() ? types->second : at::zeros_like(batch.ids_BT);
    check_token_types(types_BT, b.config.type_vocab_size);
    const Tensor x_BTD = word_embeddings(batch.ids_BT, pass) + token_type_embeddings(types_BT, pass);
    return b.drop(layer_norm(x_BTD + position_embeddings(nn::positions(pass), pass)), pass, "embeddings");
  }
  nn::Embedding& table(const char* name, std::int64_t rows, std::int64_t no_gradient_id = -1) {
    return child<nn::Embedding>(name, rows, b.config.hidden_size, b.config.initializer_range, no_gradient_id);
  }

  const Bert& b;
  nn::Embedding& word_embeddings = table("word_embeddings", b.config.vocab_size, b.shape.no_gradient_id);
  nn::Embedding& position_embeddings = table("position_embeddings", b.config.max_position_embeddings);
  nn::Embedding& token_type_embeddings = table("token_type_embeddings", b.config.type_vocab_size);
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", b.config.hidden_size, b.config.layer_norm_eps);
};

class SelfAttention final : public Module {
 public:
  explicit SelfAttention(const Bert& bert) : b(bert) {}
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
class Output final : public Module {
 public:
  Output(const Bert& bert, std::int64_t width) : b(bert), width_(width) {}
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

class Attention final : public Module {
 public:
  explicit Attention(const Bert& bert) : b(bert) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    nn::Residual x(x_1ND);
    return output(self(x_1ND, pass), x, pass, "attention");
  }

 private:
  const Bert& b;
  SelfAttention& self = child<SelfAttention>("self", b);
  Output& output = child<Output>("output", b, b.config.hidden_size);
};

// A module that is one product.
class Dense final : public Module {
 public:
  Dense(const Bert& bert, std::int64_t out)
      : dense(child<nn::Linear>("dense", bert.config.hidden_size, out, bert.linear())) {}
  nn::Linear& dense;
};

class Layer final : public Block {
 public:
  Layer(const Bert& bert, std::int64_t) : b(bert) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    const Tensor attended_1ND = attention(x_1ND, pass);
    nn::Residual x(attended_1ND);
    return output(nn::activate(intermediate.dense(attended_1ND, pass), b.shape.activation), x, pass, "mlp");
  }

 private:
  const Bert& b;
  Attention& attention = child<Attention>("attention", b);
  Dense& intermediate = child<Dense>("intermediate", b, b.config.intermediate_size);
  Output& output = child<Output>("output", b, b.config.intermediate_size);
};

class Encoder final : public Module {
 public:
  explicit Encoder(const Bert& bert) : layer(child<nn::Stack<Layer>>("layer", bert.config.num_hidden_layers, bert)) {}
  nn::Stack<Layer>& layer;
};

struct Body final : Module {
  explicit Body(const Bert& bert) : b(bert) {
    if (!b.shape.masked_lm) pooler = &child<Dense>("pooler", b, b.config.hidden_size);
  }
  const Bert& b;
  Embeddings& embeddings = child<Embeddings>("embeddings", b);
  Encoder& encoder = child<Encoder>("encoder", b);
  Dense* pooler = nullptr;
};

// Which token stood at a place: by the table of words, whose rows are compared with what the place's state becomes.
class Predictions final : public Module {
 public:
  Predictions(const Bert& bert, Weight& words) : b(bert), words_(words) {}
  Tensor transformed(const Tensor& hidden, const Pass& pass) const {
    return layer_norm(nn::activate(transform(hidden, pass), b.shape.activation));
  }

 private:
  const Bert& b;
  Weight& words_;
  Weight& bias_ = parameter("bias", {b.config.vocab_size}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  nn::Linear& transform = child<nn::Linear>("transform.dense", b.config.hidden_size, b.config.hidden_size, b.linear());
  nn::LayerNorm& layer_norm =
      child<nn::LayerNorm>("transform.LayerNorm", b.config.hidden_size, b.config.layer_norm_eps);

 public:
  nn::Head& decoder = child<nn::Head>("decoder", b.config.hidden_size, b.config.vocab_size, b.config.initializer_range,
                                      &words_, /*soft_cap=*/0, &bias_);
};

class BertModel final : public Model, public Classifier, public MaskedLm {
 public:
  BertModel(const BertConfig& config, const HeadRequest& head) : b{config, resolve(config, head)} {
    if (!b.shape.labels.empty())
      head_ = &child<nn::Linear>("classifier", config.hidden_size, std::ssize(b.shape.labels), b.linear());
    if (b.shape.masked_lm)
      predictions_ = &child<Predictions>("cls.predictions", b, body.embeddings.word_embeddings.weight);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    const auto& layers = body.encoder.layer.blocks();
    return {layers.begin(), layers.end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return x_1ND; }
  std::int64_t vocab_size() const override { return b.config.vocab_size; }
  std::int64_t max_positions() const override { return b.config.max_position_embeddings; }
  bool positions_are_learned() const override { return true; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{b.config.num_attention_heads, b.shape.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body.encoder.layer.blocks().size(), layer);
  }
  config::Node hf_config() const override {
    const Weight& weight = body.embeddings.word_embeddings.weight;
    return to_hf_config(b.config, b.shape, weight.filled() ? hf_name(weight.use().scalar_type()) : "");
  }

  const Classifier* classifier() const override { return head_ ? this : nullptr; }
  const std::vector<std::string>& labels() const override { return b.shape.labels; }
  Tensor logits(const hone::Output& output, Pass& pass) const override {
    std::vector<std::int64_t> first;  // the token that stands for its document: [CLS]
    for (const ops::Span& span : pass.plan().documents().spans()) first.push_back(span.begin);
    const Tensor flat_ND = pass.plan().to_flat(output.hidden_BTD).squeeze(0);
    const Tensor first_SD = flat_ND.index_select(0, at::tensor(first).to(flat_ND.device()));
    const Tensor pooled_SD = at::tanh(body.pooler->dense(first_SD, pass));
    return (*head_)(nn::dropout(pooled_SD, b.shape.classifier_dropout, pass, "classifier"), pass);
  }
  std::string weights_prefix() const override { return "classifier."; }

  const MaskedLm* masked_lm() const override { return predictions_ ? this : nullptr; }
  const nn::Head& mask_head() const override {
    HONE_ASSERT(predictions_);
    return predictions_->decoder;
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return predictions_->transformed(hidden, pass);
  }

  std::string base_prefix() const override { return "bert."; }
  // With a head for masked tokens: what is the table and the bias once more.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with("embeddings.position_ids") ||
           (predictions_ && tensor.starts_with("cls.predictions.decoder."));
  }
  bool may_be_fresh(const std::string& weight) const override {
    return weight.starts_with(weights_prefix()) || weight.starts_with("cls.") ||
           weight.find("pooler.") != std::string::npos;
  }

 private:
  bool has_head() const { return !b.shape.labels.empty() || b.shape.masked_lm; }
  Bert b;
  Body& body = child<Body>(has_head() ? "bert" : "", b);  // below a head its weights have a prefix
  nn::Linear* head_ = nullptr;                            // one of the two, or neither
  Predictions* predictions_ = nullptr;
};

}  // namespace

void register_bert(Registries& hone) {
  hone.models.add<BertModel, BertConfig>("bert",
                                         "BERT, alone, with a classification head, or with one for masked tokens.");
}

}  // namespace hone::models
