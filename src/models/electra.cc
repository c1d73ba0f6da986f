// ELECTRA (Clark et al., 2020, arXiv:2003.10555): BERT's encoder, often with narrower tables; alone, with a
// classification head, with one that answers questions, or, as its generator, with one for masked tokens.
//
// Letters in tensor names: D hidden, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "electra.".
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/bert_body.h"
#include "models/encoder_model.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

using config::Node;

// BERT's keys with other defaults, and some of its own.
struct ElectraConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "electra", hidden_act = "gelu";
  std::int64_t vocab_size = 30522, embedding_size = 128, hidden_size = 256, num_hidden_layers = 12,
               num_attention_heads = 4, intermediate_size = 1024, max_position_embeddings = 512, type_vocab_size = 2;
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1, initializer_range = 0.02,
         layer_norm_eps = 1e-12, summary_last_dropout = 0.1;
  std::optional<double> classifier_dropout;
  std::string summary_type = "first", summary_activation = "gelu";
  std::optional<std::string> position_embedding_type;
  bool summary_use_proj = true, is_decoder = false, add_cross_attention = false, tie_word_embeddings = true;
  config::Open bos_token_id, eos_token_id, pad_token_id{Node::scalar("0")};

  static constexpr auto own_fields() {
    using C = ElectraConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, "electra."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("embedding_size", &C::embedding_size, "Width of the tables.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
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
        field("classifier_dropout", &C::classifier_dropout,
              "Share that training drops before the classifier; default: hidden_dropout_prob.", share),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.",
              {.low = 0, .high = 100}),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", {.low = 0, .high = 1}),
        field("position_embedding_type", &C::position_embedding_type, "Must be absolute."),
        field("summary_type", &C::summary_type,
              "Kept for others: of a head that hone has not, as the other summaries."),
        field("summary_use_proj", &C::summary_use_proj, "Kept for others."),
        field("summary_activation", &C::summary_activation, "Kept for others."),
        field("summary_last_dropout", &C::summary_last_dropout, "Kept for others.", share),
        field("is_decoder", &C::is_decoder, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Of the head for masked tokens, where it must be true."),
        field("bos_token_id", &C::bos_token_id, "Kept for others."),
        field("eos_token_id", &C::eos_token_id, "Kept for others."),
        field("pad_token_id", &C::pad_token_id,
              "Padding; its row of the embedding table gets no gradient from look-ups.")};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }

  BertConfig as_bert() const {
    BertConfig made;
    static_cast<LabelKeys&>(made) = *this;
    made.architectures.reset();  // heads are this model's matter
    made.vocab_size = vocab_size, made.hidden_size = hidden_size, made.num_hidden_layers = num_hidden_layers;
    made.num_attention_heads = num_attention_heads, made.intermediate_size = intermediate_size;
    made.max_position_embeddings = max_position_embeddings, made.type_vocab_size = type_vocab_size;
    made.hidden_act = hidden_act, made.hidden_dropout_prob = hidden_dropout_prob;
    made.attention_probs_dropout_prob = attention_probs_dropout_prob;
    made.classifier_dropout = classifier_dropout, made.initializer_range = initializer_range;
    made.layer_norm_eps = layer_norm_eps, made.is_decoder = is_decoder, made.add_cross_attention = add_cross_attention;
    made.position_embedding_type = position_embedding_type.value_or("absolute");
    made.bos_token_id = bos_token_id, made.eos_token_id = eos_token_id, made.pad_token_id = pad_token_id;
    return made;
  }
  void validate(Problems& problems) const {
    problems.require(model_type == "electra", "model_type", fmt::format("got {}, expected electra", model_type));
    as_bert().validate(problems);
  }
};

BertShape resolve(const ElectraConfig& c, const HeadRequest& head) {
  BertShape s = resolve(c.as_bert(), HeadRequest{});
  Problems problems;
  read_head(c, c.tie_word_embeddings, s, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  problems.raise("the model's configuration");
  s.embedding_size = c.embedding_size;
  return s;
}

// What a generator's states become before they are compared with the table of words.
class GeneratorPredictions final : public Module {
 public:
  explicit GeneratorPredictions(const Bert& bert) : b(bert) {}
  Tensor operator()(const Tensor& hidden, const Pass& pass) const {
    return layer_norm(nn::activate(dense(hidden, pass), ops::Activation::gelu));  // whatever hidden_act says
  }

 private:
  const Bert& b;
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", b.table_width(), b.config.layer_norm_eps);
  nn::Linear& dense = child<nn::Linear>("dense", b.config.hidden_size, b.table_width(), b.linear());
};

struct ElectraBody final : Module {
  explicit ElectraBody(const Bert& bert) : b(bert) {
    if (b.table_width() != b.config.hidden_size)
      embeddings_project = &child<nn::Linear>("embeddings_project", b.table_width(), b.config.hidden_size, b.linear());
  }
  const Bert& b;
  BertEmbeddings& embeddings = child<BertEmbeddings>("embeddings", b);
  nn::Linear* embeddings_project = nullptr;
  BertEncoder& encoder = child<BertEncoder>("encoder", b);
};

class ElectraModel final : public EncoderModel {
 public:
  ElectraModel(const ElectraConfig& config, const HeadRequest& head)
      : EncoderModel(b.shape, "electra"),
        c_(config),
        b{config.as_bert(), resolve(config, head)},
        body_(child<ElectraBody>(body_name(), b)) {
    const std::int64_t hidden = c_.hidden_size, labels = std::ssize(b.shape.labels.names);
    if (of_tokens())
      product_ = &child<nn::Linear>(answers_questions() ? "qa_outputs" : "classifier", hidden, labels, b.linear());
    else if (labels > 0)
      head_ = &child<HeadOfTexts>("classifier", hidden, labels, b.linear());
    if (!b.shape.masked_lm) return;
    generator_ = &child<GeneratorPredictions>("generator_predictions", b);
    Weight& bias = parameter("generator_lm_head.bias", {c_.vocab_size}, {.kind = Init::Kind::zeros}, /*decays=*/false);
    lm_head_ = &child<nn::Head>("generator_lm_head", b.table_width(), c_.vocab_size, c_.initializer_range, &words(),
                                /*soft_cap=*/0, &bias);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = body_.embeddings(batch, pass);
    return body_.embeddings_project ? (*body_.embeddings_project)(x_BTD, pass) : x_BTD;
  }
  std::vector<const Block*> blocks() const override {
    const auto& layers = body_.encoder.layer.blocks();
    return {layers.begin(), layers.end()};
  }
  std::int64_t vocab_size() const override { return c_.vocab_size; }
  std::int64_t max_positions() const override { return c_.max_position_embeddings; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{c_.num_attention_heads, b.shape.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body_.encoder.layer.blocks().size(), layer);
  }
  Node hf_config() const override {
    Node node = config::write(c_);
    node.at_or_add("use_cache") = config::Values<bool>::write(true);
    std::erase_if(node.entries(), [](const Node::Entry& entry) { return entry.first == "position_embedding_type"; });
    if (!c_.classifier_dropout) node.at_or_add("classifier_dropout") = Node();
    return as_hf_config(std::move(node), "Electra", c_,
                        {{"hidden_dropout_prob", c_.hidden_dropout_prob},
                         {"attention_probs_dropout_prob", c_.attention_probs_dropout_prob},
                         {"summary_last_dropout", c_.summary_last_dropout},
                         {"initializer_range", c_.initializer_range},
                         {"layer_norm_eps", c_.layer_norm_eps}},
                        {{"bos_token_id", c_.bos_token_id.node},
                         {"eos_token_id", c_.eos_token_id.node},
                         {"pad_token_id", c_.pad_token_id.node}});
  }

  Tensor logits(const Output& output, Pass& pass) const override {
    if (answers_questions()) return (*product_)(output.hidden_BTD, pass);
    if (product_) return (*product_)(drop(output.hidden_BTD, pass, "classifier"), pass);
    const Tensor inner_SD =
        nn::activate(head_->dense(drop(first_SD(output, pass), pass, "classifier"), pass), ops::Activation::gelu);
    return head_->out_proj(drop(inner_SD, pass, "classifier/inner"), pass);
  }

  const MaskedLm* masked_lm() const override { return lm_head_ ? this : nullptr; }
  const nn::Head& mask_head() const override {
    HONE_ASSERT(lm_head_);
    return *lm_head_;
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override { return (*generator_)(hidden, pass); }
  MaskHeadNames mask_head_names() const override { return {"generator_lm_head", "generator_lm_head.bias"}; }
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with("embeddings.position_ids") || tensor.ends_with("embeddings.token_type_ids") ||
           (lm_head_ && tensor == "generator_lm_head.weight");
  }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("generator_predictions.") ||
           weight.starts_with("generator_lm_head.");
  }

 private:
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, b.shape.classifier_dropout, pass, place);
  }

  const ElectraConfig c_;
  const Bert b;
  ElectraBody& body_;
  HeadOfTexts* head_ = nullptr;    // of texts
  nn::Linear* product_ = nullptr;  // of each token
  GeneratorPredictions* generator_ = nullptr;
  nn::Head* lm_head_ = nullptr;
};

}  // namespace

void register_electra(Registries& hone) {
  hone.models.add<ElectraModel, ElectraConfig>(
      "electra",
      "ELECTRA, alone, with a classification head of texts or of tokens, with one that answers questions, or with one "
      "for masked tokens.");
}

}  // namespace hone::models
