// ALBERT (Lan et al., 2019, arXiv:1909.11942): BERT with narrow tables, whose layers are the same few ones again and
// again; alone, with a classification head, with one that answers questions, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "albert.".
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>

#include "hone/registry.h"
#include "models/bert_body.h"
#include "models/encoder_model.h"

namespace hone::models {
namespace {

using config::Node;

struct AlbertConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "albert", hidden_act = "gelu_new";
  std::int64_t vocab_size = 30000, embedding_size = 128, hidden_size = 4096, num_hidden_layers = 12,
               num_hidden_groups = 1, num_attention_heads = 64, intermediate_size = 16384, inner_group_num = 1,
               max_position_embeddings = 512, type_vocab_size = 2;
  double hidden_dropout_prob = 0, attention_probs_dropout_prob = 0, classifier_dropout_prob = 0.1,
         initializer_range = 0.02, layer_norm_eps = 1e-12;
  std::optional<std::string> position_embedding_type;
  std::optional<std::int64_t> down_scale_factor, gap_size, net_structure_type, num_memory_blocks;
  bool tie_word_embeddings = true;
  config::Open bos_token_id{Node::scalar("2")}, eos_token_id{Node::scalar("3")}, pad_token_id{Node::scalar("0")};

  static constexpr auto own_fields() {
    using C = AlbertConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr const char* kOld = "Of the first version's files; no effect, in transformers as here.";
    return std::tuple{
        field("model_type", &C::model_type, "albert."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("embedding_size", &C::embedding_size, "Width of the tables.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Layers that a token goes through.",
              {.low = 1, .high = 10000}),
        field("num_hidden_groups", &C::num_hidden_groups, "Groups of layers, each with weights of its own.",
              {.low = 1, .high = 10000}),
        field("inner_group_num", &C::inner_group_num, "Blocks of a layer.", {.low = 1, .high = 1000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("max_position_embeddings", &C::max_position_embeddings,
              "Positions that are learned: no document may be longer.", size),
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              size),
        field("hidden_act", &C::hidden_act, "Activation of the MLP, by Hugging Face's name."),
        field("hidden_dropout_prob", &C::hidden_dropout_prob, "Share of hidden numbers that training drops.", share),
        field("attention_probs_dropout_prob", &C::attention_probs_dropout_prob,
              "Share of attention weights that training drops.", share),
        field("classifier_dropout_prob", &C::classifier_dropout_prob, "Share that training drops before a classifier.",
              share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("position_embedding_type", &C::position_embedding_type, "Must be absolute."),
        field("down_scale_factor", &C::down_scale_factor, kOld),
        field("gap_size", &C::gap_size, kOld),
        field("net_structure_type", &C::net_structure_type, kOld),
        field("num_memory_blocks", &C::num_memory_blocks, kOld),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }

  // What it shares with BERT: the tables and what is checked.
  BertConfig as_bert() const {
    BertConfig made;
    static_cast<LabelKeys&>(made) = *this;
    made.architectures.reset();  // heads are this model's matter
    made.vocab_size = vocab_size, made.hidden_size = hidden_size, made.num_hidden_layers = num_hidden_groups;
    made.num_attention_heads = num_attention_heads, made.intermediate_size = intermediate_size;
    made.max_position_embeddings = max_position_embeddings, made.type_vocab_size = type_vocab_size;
    made.hidden_act = hidden_act, made.hidden_dropout_prob = hidden_dropout_prob;
    made.attention_probs_dropout_prob = attention_probs_dropout_prob, made.classifier_dropout = classifier_dropout_prob;
    made.initializer_range = initializer_range, made.layer_norm_eps = layer_norm_eps;
    made.position_embedding_type = position_embedding_type.value_or("absolute");
    made.bos_token_id = bos_token_id, made.eos_token_id = eos_token_id, made.pad_token_id = pad_token_id;
    return made;
  }
  void validate(Problems& problems) const {
    problems.require(model_type == "albert", "model_type", fmt::format("got {}, expected albert", model_type));
    problems.require(
        num_hidden_groups <= num_hidden_layers, "num_hidden_groups",
        fmt::format("got {}, expected at most num_hidden_layers, {}", num_hidden_groups, num_hidden_layers));
    as_bert().validate(problems);
  }
};

BertShape resolve(const AlbertConfig& c, const HeadRequest& head) {
  BertShape s = resolve(c.as_bert(), HeadRequest{});
  Problems problems;
  read_head(c, c.tie_word_embeddings, s, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  problems.raise("the model's configuration");
  s.embedding_size = c.embedding_size;
  return s;
}

class AlbertAttention final : public Module {
 public:
  explicit AlbertAttention(const Bert& bert) : b(bert) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&query, &key, &value}, pass);
    const auto heads = [&](const Tensor& x) { return x.view({-1, b.config.num_attention_heads, b.shape.head_size}); };
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(b.shape.head_size)),
                                        .mask = ops::Mask::full(),
                                        .dropout = b.config.attention_probs_dropout_prob};
    const Tensor seen = nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options);
    nn::Residual x(x_1ND);
    x += b.drop(dense(seen.flatten(1).unsqueeze(0), pass), pass, "attention");
    return layer_norm(x);
  }

 private:
  nn::Linear& square(const char* name) {
    return child<nn::Linear>(name, b.config.hidden_size, b.config.hidden_size, b.linear());
  }
  const Bert& b;
  nn::Linear &query = square("query"), &key = square("key"), &value = square("value"), &dense = square("dense");
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", b.config.hidden_size, b.config.layer_norm_eps);
};

class AlbertLayer final : public Module {
 public:
  explicit AlbertLayer(const Bert& bert) : b(bert) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const Tensor attended_1ND = attention(x_1ND, pass);
    nn::Residual x(attended_1ND);
    x += ffn_output(nn::activate(ffn(attended_1ND, pass), b.shape.activation), pass);
    return full_layer_layer_norm(x);
  }

 private:
  const Bert& b;
  nn::LayerNorm& full_layer_layer_norm =
      child<nn::LayerNorm>("full_layer_layer_norm", b.config.hidden_size, b.config.layer_norm_eps);
  AlbertAttention& attention = child<AlbertAttention>("attention", b);
  nn::Linear& ffn = child<nn::Linear>("ffn", b.config.hidden_size, b.config.intermediate_size, b.linear());
  nn::Linear& ffn_output =
      child<nn::Linear>("ffn_output", b.config.intermediate_size, b.config.hidden_size, b.linear());
};

// One of the times that a layer is gone through. Its weights are the model's, as others go through it, too.
class AlbertStep final : public Block {
 public:
  explicit AlbertStep(const AlbertLayer& layer) : layer_(layer) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override { return layer_(x_1ND, pass); }

 private:
  const AlbertLayer& layer_;
};

struct AlbertBody final : Module {
  AlbertBody(const AlbertConfig& c, const Bert& bert, bool pools) : b(bert) {
    std::vector<AlbertLayer*> layers;
    for (std::int64_t group = 0; group < c.num_hidden_groups; ++group)
      for (std::int64_t inner = 0; inner < c.inner_group_num; ++inner)
        layers.push_back(
            &child<AlbertLayer>(fmt::format("encoder.albert_layer_groups.{}.albert_layers.{}", group, inner), b));
    std::map<AlbertLayer*, double> times;
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
      const double each = static_cast<double>(c.num_hidden_layers) / static_cast<double>(c.num_hidden_groups);
      const auto group = static_cast<std::int64_t>(static_cast<double>(i) / each);
      for (std::int64_t inner = 0; inner < c.inner_group_num; ++inner) {
        AlbertLayer* layer = layers[static_cast<std::size_t>(group * c.inner_group_num + inner)];
        steps.push_back(std::make_unique<AlbertStep>(*layer));
        ++times[layer];
      }
    }
    for (const auto& [layer, count] : times)
      layer->each_weight([count = count](const std::string&, Weight& weight) { weight.set_share_of_tokens(count); });
    if (pools) pooler = &child<nn::Linear>("pooler", c.hidden_size, c.hidden_size, b.linear());
  }
  const Bert& b;
  BertEmbeddings& embeddings = child<BertEmbeddings>("embeddings", b);
  nn::Linear& mapping =
      child<nn::Linear>("encoder.embedding_hidden_mapping_in", b.table_width(), b.config.hidden_size, b.linear());
  std::vector<std::unique_ptr<AlbertStep>> steps;
  nn::Linear* pooler = nullptr;
};

class AlbertModel final : public EncoderModel {
 public:
  AlbertModel(const AlbertConfig& config, const HeadRequest& head)
      : EncoderModel(b.shape, "albert"),
        c_(config),
        b{config.as_bert(), resolve(config, head)},
        body_(child<AlbertBody>(body_name(), c_, b, pools(b.shape))) {
    if (!b.shape.labels.empty())
      product_ = &child<nn::Linear>(answers_questions() ? "qa_outputs" : "classifier", c_.hidden_size,
                                    std::ssize(b.shape.labels.names), b.linear());
    if (b.shape.masked_lm)
      mask_head_ = &child<MaskHead>("predictions", words(), c_.vocab_size,
                                    MaskHead::Form{"dense", "LayerNorm", b.shape.activation, c_.hidden_size,
                                                   c_.embedding_size, c_.initializer_range, c_.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    return body_.mapping(body_.embeddings(batch, pass), pass);
  }
  std::vector<const Block*> blocks() const override {
    std::vector<const Block*> all;
    for (const auto& step : body_.steps) all.push_back(step.get());
    return all;
  }
  std::int64_t vocab_size() const override { return c_.vocab_size; }
  std::int64_t max_positions() const override { return c_.max_position_embeddings; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{c_.num_attention_heads, b.shape.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body_.steps.size(), layer);
  }
  Node hf_config() const override {
    Node node = config::write(c_);
    std::erase_if(node.entries(), [](const Node::Entry& entry) {
      return entry.first == "position_embedding_type" || entry.first == "down_scale_factor" ||
             entry.first == "gap_size" || entry.first == "net_structure_type" || entry.first == "num_memory_blocks";
    });
    return as_hf_config(std::move(node), "Albert", c_,
                        {{"hidden_dropout_prob", c_.hidden_dropout_prob},
                         {"attention_probs_dropout_prob", c_.attention_probs_dropout_prob},
                         {"classifier_dropout_prob", c_.classifier_dropout_prob},
                         {"initializer_range", c_.initializer_range},
                         {"layer_norm_eps", c_.layer_norm_eps}},
                        {{"bos_token_id", c_.bos_token_id.node},
                         {"eos_token_id", c_.eos_token_id.node},
                         {"pad_token_id", c_.pad_token_id.node}});
  }

  Tensor logits(const Output& output, Pass& pass) const override {
    if (answers_questions()) return (*product_)(output.hidden_BTD, pass);
    const auto drop = [&](const Tensor& x) { return nn::dropout(x, c_.classifier_dropout_prob, pass, "classifier"); };
    if (of_tokens()) return (*product_)(drop(output.hidden_BTD), pass);
    return (*product_)(drop(at::tanh((*body_.pooler)(first_SD(output, pass), pass))), pass);
  }
  MaskHeadNames mask_head_names() const override { return {"predictions.decoder", "predictions.bias"}; }

 private:
  static bool pools(const BertShape& shape) { return !shape.masked_lm && !shape.labels.of_tokens; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }

  const AlbertConfig c_;
  const Bert b;
  AlbertBody& body_;
  nn::Linear* product_ = nullptr;
};

}  // namespace

void register_albert(Registries& hone) {
  hone.models.add<AlbertModel, AlbertConfig>("albert",
                                             "ALBERT, alone, with a classification head of texts or of tokens, with "
                                             "one that answers questions, or with one for "
                                             "masked tokens.");
}

}  // namespace hone::models
