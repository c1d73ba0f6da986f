// ALBERT (Lan et al., 2019, arXiv:1909.11942): BERT with narrow tables, whose layers are the same few ones again and
// again; alone, with a classification head, with one that answers questions, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "albert.".
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <memory>

#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

struct OfAlbert : UsualOfEncoders {
  static constexpr const char *kType = "albert", *kOfType = "albert.", *kAct = "gelu_new", *kBos = "2", *kEos = "3",
                              *kOfLayers = "Layers that a token goes through.";
  static constexpr std::int64_t kVocab = 30000, kHidden = 4096, kHeads = 64, kInner = 16384;
  static constexpr double kDropout = 0;
};

struct AlbertConfig : EncoderKeys<OfAlbert> {
  using Base = EncoderKeys<OfAlbert>;
  std::int64_t embedding_size = 128, num_hidden_groups = 1, inner_group_num = 1, type_vocab_size = 2;
  double classifier_dropout_prob = 0.1;
  std::optional<std::string> position_embedding_type;
  std::optional<std::int64_t> down_scale_factor, gap_size, net_structure_type, num_memory_blocks;

  static constexpr auto own_fields() {
    using C = AlbertConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    constexpr const char* kOld = "Of the first version's files; no effect, in transformers as here.";
    return std::tuple{
        field("embedding_size", &C::embedding_size, "Width of the tables.", size),
        field("num_hidden_groups", &C::num_hidden_groups, "Groups of layers, each with weights of its own.",
              {.low = 1, .high = 10000}),
        field("inner_group_num", &C::inner_group_num, "Blocks of a layer.", {.low = 1, .high = 1000}),
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              size),
        field("classifier_dropout_prob", &C::classifier_dropout_prob, "Share that training drops before a classifier.",
              {.low = 0, .high = 0.999}),
        field("position_embedding_type", &C::position_embedding_type, "Must be absolute."),
        field("down_scale_factor", &C::down_scale_factor, kOld),
        field("gap_size", &C::gap_size, kOld),
        field("net_structure_type", &C::net_structure_type, kOld),
        field("num_memory_blocks", &C::num_memory_blocks, kOld)};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), own_fields()); }

  // What it shares with BERT: the tables and what is checked.
  BertConfig as_bert() const {
    BertConfig made;
    copy_keys(*this, made);
    made.num_hidden_layers = num_hidden_groups, made.type_vocab_size = type_vocab_size;
    made.classifier_dropout = classifier_dropout_prob, made.position_embedding_type = position_embedding_type;
    return made;
  }
  void validate(Problems& problems) const {
    problems.require(
        num_hidden_groups <= num_hidden_layers, "num_hidden_groups",
        fmt::format("got {}, expected at most num_hidden_layers, {}", num_hidden_groups, num_hidden_layers));
    as_bert().validate(problems);
  }
};

BertShape resolve(const AlbertConfig& c, const HeadRequest& head) {
  BertShape s = resolve(c.as_bert(), head);
  s.embedding_size = c.embedding_size;
  return s;
}

class AlbertAttention final : public Module {
 public:
  explicit AlbertAttention(const Bert& bert) : b(bert) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&query, &key, &value}, pass);
    const Tensor seen_1ND = attend_in_heads(qkv, b.shape, b.config.attention_probs_dropout_prob, pass);
    nn::Residual x(x_1ND);
    x += b.drop(dense(seen_1ND, pass), pass, "attention");
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
      : EncoderModel({"albert", "Albert", {"predictions.decoder", "predictions.bias"}}),
        c_(config),
        b{config.as_bert(), resolve(config, head)},
        body_(child<AlbertBody>(body_name(), c_, b, !b.shape.masked_lm && !b.shape.labels.of_tokens)) {
    if (!b.shape.labels.empty()) add_product(c_.hidden_size, b.linear());
    if (b.shape.masked_lm)
      add_mask_head({"dense", "LayerNorm", b.shape.activation, c_.hidden_size, c_.embedding_size, c_.initializer_range,
                     c_.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    return body_.mapping(body_.embeddings(batch, pass), pass);
  }
  std::vector<const Block*> blocks() const override {
    std::vector<const Block*> all;
    for (const auto& step : body_.steps) all.push_back(step.get());
    return all;
  }
  std::int64_t max_positions() const override { return c_.max_position_embeddings; }
  config::Node hf_config() const override {
    return as_hf_config(c_, {}, {"position_embedding_type", "down_scale_factor", "gap_size", "net_structure_type",
                                 "num_memory_blocks"});
  }

 private:
  const EncoderShape& shape() const override { return b.shape; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    return product(at::tanh((*body_.pooler)(first_SD, pass)), b.shape.classifier_dropout, pass);
  }

  const AlbertConfig c_;
  const Bert b;
  AlbertBody& body_;
};

}  // namespace

void register_albert(Registries& hone) {
  hone.models.add<AlbertModel, AlbertConfig>("albert",
                                             "ALBERT, alone, with a classification head of texts or of tokens, with "
                                             "one that answers questions, or with one for "
                                             "masked tokens.");
}

}  // namespace hone::models
