// BERTs whose norms stand before attention and MLP: RoBERTa-PreLayerNorm (Ott et al., 2019, arXiv:1904.01038), XLM-R XL
// and XXL (Goyal et al., 2021, arXiv:2105.00572) and Megatron-BERT (Shoeybi et al., 2019, arXiv:1909.08053); alone,
// with a classification head, with one that answers questions, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with
// "roberta_prelayernorm.", "roberta." or "bert.".
#include "hone/registry.h"
#include "models/prenorm_body.h"

namespace hone::models {
namespace {

struct OfPreLayerNorm : OfRoberta {
  static constexpr const char *kType = "roberta-prelayernorm", *kOfType = "roberta-prelayernorm.";
};
struct OfXl : OfRoberta {
  static constexpr const char *kType = "xlm-roberta-xl", *kOfType = "xlm-roberta-xl.";
  static constexpr std::int64_t kVocab = 250880, kHidden = 2560, kLayers = 36, kHeads = 32, kInner = 10240,
                                kPositions = 514;
  static constexpr double kEps = 1e-5;
};
struct OfMegatron : UsualOfEncoders {
  static constexpr const char *kType = "megatron-bert", *kOfType = "megatron-bert.";
  static constexpr std::int64_t kVocab = 29056, kHidden = 1024, kLayers = 24, kHeads = 16, kInner = 4096;
};

template <class Usual>
struct PreNormConfig : BertKeys<Usual> {
  using Base = BertKeys<Usual>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const { as_bert(*this).validate(problems); }
};
using PreLayerNormConfig = PreNormConfig<OfPreLayerNorm>;
using XlConfig = PreNormConfig<OfXl>;
struct MegatronConfig : PreNormConfig<OfMegatron> {
  using Base = PreNormConfig<OfMegatron>;
  static constexpr auto fields() { return Base::fields(); }
};

const MaskHeadNames kOfRobertas{"lm_head.decoder", "lm_head.bias"};
PreNormFamily family_of(const PreLayerNormConfig&) {
  return {"roberta_prelayernorm", "RobertaPreLayerNorm", "attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm",
          true, true, kOfRobertas};
}
PreNormFamily family_of(const XlConfig&) {
  return {"roberta", "XLMRobertaXL", "attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm",
          false, true, kOfRobertas};
}
PreNormFamily family_of(const MegatronConfig&) {
  return {"bert", "MegatronBert", "attention.ln", "ln", "encoder.ln",
          true, false, {"cls.predictions.decoder", "cls.predictions.bias"}};
}

template <class Usual>
RobertaConfig as_roberta(const BertKeys<Usual>& from) {
  RobertaConfig made;
  copy_keys(from, made);
  made.type_vocab_size = from.type_vocab_size, made.classifier_dropout = from.classifier_dropout;
  made.position_embedding_type = from.position_embedding_type;
  made.is_decoder = from.is_decoder, made.add_cross_attention = from.add_cross_attention;
  return made;
}

template <class C>
BertShape resolve_pre_norm(const C& c, const HeadRequest& head) {
  BertShape s = family_of(c).is_roberta ? resolve(as_roberta(c), head) : resolve(as_bert(c), head);
  s.norms_embeddings = std::string_view(family_of(c).last_norm) == "LayerNorm";
  if (!family_of(c).is_roberta) s.classifier_dropout = c.hidden_dropout_prob;
  return s;
}

struct PreNormBody final : Module {
  PreNormBody(const PreNormBert& model, bool pools)
      : b(model.bert),
        embeddings(child<BertEmbeddings>("embeddings", b)),
        layer(child<nn::Stack<PreNormLayer>>("encoder.layer", b.config.num_hidden_layers, model)),
        last_norm(child<nn::LayerNorm>(model.family.last_norm, b.config.hidden_size, b.config.layer_norm_eps)) {
    if (pools) pooler = &child<BertDense>("pooler", b, b.config.hidden_size);
  }
  const Bert& b;
  BertEmbeddings& embeddings;
  nn::Stack<PreNormLayer>& layer;
  nn::LayerNorm& last_norm;
  BertDense* pooler = nullptr;
};

template <class C>
class PreNormModel final : public EncoderModel {
 public:
  PreNormModel(const C& config, const HeadRequest& head)
      : EncoderModel({family_of(config).prefix, family_of(config).classes, family_of(config).mask_head}),
        c_(config),
        m{family_of(config), Bert(as_bert(config), resolve_pre_norm(config, head))},
        body_(child<PreNormBody>(body_name(), m, pools())) {
    const BertShape& s = m.bert.shape;
    const auto form = [&](const char* dense, const char* norm, ops::Activation activation) {
      return MaskHead::Form{dense, norm, activation, c_.hidden_size, c_.hidden_size, c_.initializer_range,
                            c_.layer_norm_eps};
    };
    if (!s.labels.empty()) {
      if (m.family.is_roberta) add_products(c_.hidden_size, m.bert.linear(), /*activation: tanh*/ {});
      else add_product(c_.hidden_size, m.bert.linear());
    }
    if (!s.masked_lm) return;
    if (m.family.is_roberta) add_mask_head(form("dense", "layer_norm", ops::Activation::gelu));
    else add_mask_head(form("transform.dense", "transform.LayerNorm", s.activation));
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body_.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    return {body_.layer.blocks().begin(), body_.layer.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return body_.last_norm(x_1ND); }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override {
    return c_.max_position_embeddings - m.bert.shape.first_position;
  }
  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    more.at_or_add("use_cache") = config::Values<bool>::write(true);
    std::vector<std::string_view> without{"position_embedding_type"};
    if (!m.family.is_roberta) without.push_back("classifier_dropout");
    else if (!c_.classifier_dropout) more.at_or_add("classifier_dropout") = config::Node();
    return as_hf_config(c_, more, std::move(without));
  }

 private:
  const EncoderShape& shape() const override { return m.bert.shape; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  bool pools() const {
    const BertShape& s = m.bert.shape;
    return !s.has_head() || (!m.family.is_roberta && !s.masked_lm && !s.labels.of_tokens);
  }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    if (m.family.is_roberta) return EncoderModel::of_documents(first_SD, pass);
    return product(at::tanh(body_.pooler->dense(first_SD, pass)), shape().classifier_dropout, pass);
  }

  const C c_;
  const PreNormBert m;
  PreNormBody& body_;
};

}  // namespace

void register_prenorm_bert(Registries& hone) {
  constexpr const char* kHeads =
      ", alone, with a classification head of texts or of tokens, with one that answers questions, or with one for "
      "masked tokens.";
  hone.models.add<PreNormModel<PreLayerNormConfig>, PreLayerNormConfig>("roberta-prelayernorm",
                                                                        std::string("RoBERTa-PreLayerNorm") + kHeads);
  hone.models.add<PreNormModel<XlConfig>, XlConfig>("xlm-roberta-xl", std::string("XLM-RoBERTa XL") + kHeads);
  hone.models.add<PreNormModel<MegatronConfig>, MegatronConfig>("megatron-bert",
                                                                std::string("Megatron-BERT") + kHeads);
}

}  // namespace hone::models
