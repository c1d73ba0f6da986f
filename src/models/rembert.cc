// RemBERT (Chung et al., 2020, arXiv:2010.12821): BERT's encoder above narrow tables, whose head for masked tokens has
// a wide matrix of its own; alone, with a classification head, with one that answers questions, or with that head.
//
// Letters in tensor names: S documents, D hidden.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "rembert.".
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

struct OfRembert : UsualOfEncoders {
  static constexpr const char *kType = "rembert", *kOfType = "rembert.", *kBos = "312", *kEos = "313";
  static constexpr const char* kOfTied =
      "No effect, in transformers as here: the head for masked tokens has a matrix of its own.";
  static constexpr bool kTied = false;
  static constexpr std::int64_t kVocab = 250300, kHidden = 1152, kLayers = 32, kHeads = 18, kInner = 4608;
  static constexpr double kDropout = 0;
};

struct RembertConfig : EncoderKeys<OfRembert> {
  using Base = EncoderKeys<OfRembert>;
  std::int64_t type_vocab_size = 2, input_embedding_size = 256, output_embedding_size = 1664;
  double classifier_dropout_prob = 0.1;
  std::optional<std::string> position_embedding_type;
  bool is_decoder = false, add_cross_attention = false;

  static constexpr auto own_fields() {
    using C = RembertConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              size),
        field("input_embedding_size", &C::input_embedding_size, "Width of the tables.", size),
        field("output_embedding_size", &C::output_embedding_size, "Width of the matrix of the head for masked tokens.",
              size),
        field("classifier_dropout_prob", &C::classifier_dropout_prob, "Share that training drops before a classifier.",
              {.low = 0, .high = 0.999}),
        field("position_embedding_type", &C::position_embedding_type, "Must be absolute."),
        field("is_decoder", &C::is_decoder, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false.")};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), own_fields()); }

  BertConfig as_bert() const {
    BertConfig made;
    copy_keys(*this, made);
    made.type_vocab_size = type_vocab_size, made.classifier_dropout = classifier_dropout_prob;
    made.position_embedding_type = position_embedding_type;
    made.is_decoder = is_decoder, made.add_cross_attention = add_cross_attention;
    made.tie_word_embeddings = true;  // of which it asks whether there may be a head for masked tokens
    return made;
  }
  void validate(Problems& problems) const { as_bert().validate(problems); }
};

BertShape resolve(const RembertConfig& c, const HeadRequest& head) {
  BertShape s = resolve(c.as_bert(), head);
  s.embedding_size = c.input_embedding_size, s.projection = "encoder.embedding_hidden_mapping_in";
  s.always_projects = true;
  return s;
}

class RembertModel final : public BertBase {
 public:
  RembertModel(const RembertConfig& config, const HeadRequest& head) : RembertModel(config, resolve(config, head)) {}
  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    more.at_or_add("use_cache") = config::Values<bool>::write(true);
    return as_hf_config(c_, more, {"position_embedding_type"});
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    return (*norm_)(nn::activate((*dense_)(hidden, pass), b.shape.activation));
  }

 private:
  RembertModel(const RembertConfig& config, const BertShape& shape)
      : BertBase({"rembert", "RemBert", {"cls.predictions.decoder", "cls.predictions.decoder.bias"}}, config.as_bert(),
                 shape, !shape.masked_lm && !shape.labels.of_tokens),
        c_(config) {
    if (!shape.labels.empty()) add_product(config.hidden_size, b.linear());
    if (!shape.masked_lm) return;
    const std::int64_t width = config.output_embedding_size;
    dense_ = &child<nn::Linear>("cls.predictions.dense", config.hidden_size, width, b.linear());
    norm_ = &child<nn::LayerNorm>("cls.predictions.LayerNorm", width, config.layer_norm_eps);
    add_mask_product(width, config.initializer_range, /*has_bias=*/true, /*tied=*/false);
  }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    return product(at::tanh(body.pooler->dense(first_SD, pass)), b.shape.classifier_dropout, pass);
  }

  const RembertConfig c_;
  nn::Linear* dense_ = nullptr;
  nn::LayerNorm* norm_ = nullptr;
};

}  // namespace

void register_rembert(Registries& hone) {
  hone.models.add<RembertModel, RembertConfig>(
      "rembert",
      "RemBERT, alone, with a classification head of texts or of tokens, with one that answers questions, or with one "
      "for masked tokens.");
}

}  // namespace hone::models
