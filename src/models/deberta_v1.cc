// DeBERTa (He et al., 2020, arXiv:2006.03654), the first version: queries, keys and values of a head come of one
// product; alone, with a classification head, one that answers questions, or one for masked tokens.
//
// Letters in tensor names: S documents, D hidden.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "deberta.".
#include <ATen/ATen.h>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/bert_config.h"
#include "models/deberta_body.h"

namespace hone::models {
namespace {

struct OfDebertaV1 : OfDeberta {
  static constexpr const char *kType = "deberta", *kOfType = "deberta.";
  static constexpr std::int64_t kVocab = 50265, kHidden = 768, kLayers = 12, kHeads = 12, kInner = 3072;
};

struct DebertaV1Config : EncoderKeys<OfDebertaV1> {
  using Base = EncoderKeys<OfDebertaV1>;
  std::string pooler_hidden_act = "gelu";
  std::int64_t type_vocab_size = 0, max_relative_positions = -1;
  bool relative_attention = false, position_biased_input = true, legacy = true, talking_head = false;
  config::Open pos_att_type;
  double pooler_dropout = 0;
  std::optional<double> cls_dropout;
  std::optional<std::int64_t> pooler_hidden_size, embedding_size;

  static constexpr auto own_fields() {
    using C = DebertaV1Config;
    constexpr config::Range share{.low = 0, .high = 0.999};
    return std::tuple{
        field("type_vocab_size", &C::type_vocab_size,
              "Token types: 0 for the first of two texts, 1 for the second; 0: there are none.",
              {.low = 0, .high = 2147483647}),
        field("position_biased_input", &C::position_biased_input, "Learned positions are added to the words."),
        field("relative_attention", &C::relative_attention, "Scores also go by how far tokens stand apart."),
        field("pos_att_type", &C::pos_att_type,
              "By what: c2p, what a query says of distances; p2c, what a key says; a list, or with | between."),
        field("max_relative_positions", &C::max_relative_positions,
              "Distances that are told apart; -1: max_position_embeddings.", {.low = -2147483647, .high = 2147483647}),
        field("pooler_hidden_act", &C::pooler_hidden_act, "Activation in front of a classifier of texts."),
        field("pooler_hidden_size", &C::pooler_hidden_size, "Must be hidden_size."),
        field("pooler_dropout", &C::pooler_dropout, "Share that training drops of what the pooler reads.", share),
        field("cls_dropout", &C::cls_dropout,
              "Share that training drops before a classifier of texts; default: hidden_dropout_prob.", share),
        field("embedding_size", &C::embedding_size, "Must be hidden_size."),
        field("talking_head", &C::talking_head, "Must be false."),
        field("legacy", &C::legacy, "Which form a head for masked tokens has: cls.predictions, or lm_predictions.")};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), own_fields()); }
  void validate(Problems& problems) const;

  DebertaConfig as_second() const {
    DebertaConfig made;
    copy_keys(*this, made);
    made.pooler_hidden_act = pooler_hidden_act, made.type_vocab_size = type_vocab_size;
    made.max_relative_positions = max_relative_positions, made.relative_attention = relative_attention;
    made.position_biased_input = position_biased_input, made.legacy = legacy;
    made.pos_att_type = pos_att_type, made.pooler_dropout = pooler_dropout, made.cls_dropout = cls_dropout;
    made.pooler_hidden_size = pooler_hidden_size, made.embedding_size = embedding_size;
    return made;
  }
};

void DebertaV1Config::validate(Problems& problems) const {
  problems.require(!talking_head, "talking_head", "got true, expected false");
  as_second().validate(problems);
}

DebertaShape shape_of_first(const DebertaV1Config& c, const HeadRequest& head) {
  DebertaShape s = resolve(c.as_second(), head);
  s.joined = true;
  return s;
}

MaskHeadNames mask_head_of_first(const DebertaV1Config& c) {
  return c.legacy ? MaskHeadNames{"cls.predictions.decoder", "cls.predictions.bias"}
                  : MaskHeadNames{"lm_predictions.lm_head.decoder", "lm_predictions.lm_head.bias"};
}

class DebertaV1Model final : public EncoderModel {
 public:
  DebertaV1Model(const DebertaV1Config& config, const HeadRequest& head)
      : EncoderModel({"deberta", "Deberta", mask_head_of_first(config)}),
        c_(config),
        d(config.as_second(), shape_of_first(config, head)),
        body_(child<DebertaBody>(body_name(), d)) {
    const std::int64_t hidden = c_.hidden_size;
    if (!d.s.labels.empty()) {
      if (!of_tokens()) pooler_ = &child<nn::Linear>("pooler.dense", hidden, hidden, d.linear());
      add_product(hidden, d.linear());
    }
    if (d.s.masked_lm)
      add_mask_head({c_.legacy ? "transform.dense" : "dense", c_.legacy ? "transform.LayerNorm" : "LayerNorm",
                     d.s.activation, hidden, hidden, c_.initializer_range, c_.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    if (d.s.c2p || d.s.p2c) pass.plan().left()[kDistances] = body_.encoder.distances(pass);
    return body_.embeddings(batch, pass);
  }
  std::vector<const Block*> blocks() const override {
    return {body_.encoder.layers.begin(), body_.encoder.layers.end()};
  }
  std::int64_t max_positions() const override { return c_.max_position_embeddings; }
  bool positions_are_learned() const override { return c_.position_biased_input; }

  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    more.at_or_add("pooler_hidden_size") = config::Values<std::int64_t>::write(c_.hidden_size);
    more.at_or_add("pos_att_type") = d.s.kinds > 0 ? config::Node::list(position_kinds()) : config::Node();
    return as_hf_config(c_, more, {"talking_head", "embedding_size"});
  }
  bool is_no_weight(const std::string& tensor) const override {
    return EncoderModel::is_no_weight(tensor) ||
           (!c_.position_biased_input && tensor.ends_with("embeddings.position_embeddings.weight"));
  }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("lm_predictions.") || weight.starts_with("cls.");
  }

 private:
  const EncoderShape& shape() const override { return d.s; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    const Tensor read_SD = nn::dropout(first_SD, c_.pooler_dropout, pass, "pooler");
    const Tensor pooled_SD = activated((*pooler_)(read_SD, pass), d.s.pooler_activation);
    return product(pooled_SD, c_.cls_dropout.value_or(c_.hidden_dropout_prob), pass);
  }
  std::vector<config::Node> position_kinds() const {
    std::vector<config::Node> kinds;
    const config::Node& given = c_.pos_att_type.node;
    if (given.kind() == config::Node::Kind::list) return given.items();
    for (const std::string& part : split(given.text(), '|'))
      kinds.push_back(config::Node::scalar(std::string(trim(part)), /*quoted=*/true));
    return kinds;
  }

  const DebertaV1Config c_;
  const Deberta d;
  DebertaBody& body_;
  nn::Linear* pooler_ = nullptr;
};

}  // namespace

void register_deberta_v1(Registries& hone) {
  hone.models.add<DebertaV1Model, DebertaV1Config>(
      "deberta",
      "DeBERTa, the first version, alone, with a classification head of texts or of tokens, with one that answers "
      "questions, or with one for masked tokens.");
}

}  // namespace hone::models
