// ESM-1b and ESM-2 (Rives et al., 2021; Lin et al., 2022): an encoder of proteins with norms before attention and MLP;
// alone, with a classification head, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "esm.".
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/strings.h"
#include "hone/registry.h"
#include "models/prenorm_body.h"
#include "tensor/by_document.h"

namespace hone::models {
namespace {

constexpr double kMaskedInTraining = 0.15 * 0.8;  // share of tokens, of all models of this family

struct OfEsm : UsualOfEncoders {
  static constexpr const char *kType = "esm", *kOfType = "esm.", *kEos = "2", *kPad = "1";
  static constexpr const char* kOfPositions =
      "Longest protein the model is meant for; where positions are learned (absolute) none may be longer.";
  static constexpr std::int64_t kVocab = 33, kPositions = 1026;
};

struct EsmConfig : EncoderKeys<OfEsm> {
  using Base = EncoderKeys<OfEsm>;
  config::Open mask_token_id, esmfold_config, vocab_list;
  double rope_theta = 10000;
  std::optional<std::string> position_embedding_type;
  std::optional<bool> emb_layer_norm_before, token_dropout, is_folding_model;
  bool is_decoder = false, add_cross_attention = false;

  static constexpr auto own_fields() {
    using C = EsmConfig;
    return std::tuple{
        field("mask_token_id", &C::mask_token_id, "The mask, whose tokens token_dropout makes 0."),
        field("position_embedding_type", &C::position_embedding_type, "rotary (ESM-2), or absolute, the default."),
        field("rope_theta", &C::rope_theta, "Base of the rotary frequencies.", {.low = 1, .high = 1e15}),
        field("emb_layer_norm_before", &C::emb_layer_norm_before, "A norm of the embeddings."),
        field("token_dropout", &C::token_dropout,
              "Masked tokens are 0, and the others as many times as large as there are less of them than in training."),
        field("is_folding_model", &C::is_folding_model, "Must be false."),
        field("esmfold_config", &C::esmfold_config, "Of folding models, which hone has not; no effect on others."),
        field("vocab_list", &C::vocab_list, "The same."),
        field("is_decoder", &C::is_decoder, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false.")};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), own_fields()); }
  bool is_rotary() const { return position_embedding_type == "rotary"; }
  void validate(Problems& problems) const;
};

// What it shares with BERT and RoBERTa.
template <class C>
C with_esm_keys(const EsmConfig& c) {
  C made;
  copy_keys(c, made);
  made.is_decoder = c.is_decoder, made.add_cross_attention = c.add_cross_attention, made.type_vocab_size = 1;
  return made;
}

void check_esm(const EsmConfig& c, Problems& problems) {
  const std::string positions = c.position_embedding_type.value_or("absolute");
  problems.require(positions == "absolute" || positions == "rotary", "position_embedding_type",
                   fmt::format("got {}, expected absolute or rotary", hone::quoted(positions)));
  problems.require(!c.is_folding_model.value_or(false), "is_folding_model", "got true, expected false");
  const auto masks = nn::read_token_ids(c.mask_token_id.node, "mask_token_id", c.vocab_size, problems);
  problems.require(!c.token_dropout.value_or(false) || !masks.empty(), "mask_token_id",
                   "none, expected one: token_dropout is of its tokens");
}

void EsmConfig::validate(Problems& problems) const {
  check_esm(*this, problems);
  if (is_rotary()) with_esm_keys<BertConfig>(*this).validate(problems);
  else with_esm_keys<RobertaConfig>(*this).validate(problems);
}

BertShape resolve(const EsmConfig& c, const HeadRequest& head) {
  BertShape s = c.is_rotary() ? resolve(with_esm_keys<BertConfig>(c), head)
                              : resolve(with_esm_keys<RobertaConfig>(c), head);
  Problems problems;
  check_esm(c, problems);
  problems.require(!s.labels.of_answers, "model_type", "transformers has no model of type esm that answers questions");
  problems.raise("the model's configuration");
  s.rotates = c.is_rotary(), s.rotates_neighbours = false, s.rope_theta = c.rope_theta;
  s.learns_positions = !c.is_rotary(), s.norms_embeddings = c.emb_layer_norm_before.value_or(false);
  s.activation = ops::Activation::gelu;  // whatever hidden_act says
  s.classifier_dropout = c.hidden_dropout_prob;
  return s;
}

class EsmEmbeddings final : public Module {
 public:
  EsmEmbeddings(const Bert& bert, std::int64_t mask) : b(bert), mask_(mask) {
    const std::int64_t hidden = b.config.hidden_size;
    if (b.shape.learns_positions)
      position_embeddings = &child<nn::Embedding>("position_embeddings", b.config.max_position_embeddings, hidden,
                                                  b.config.initializer_range);
    if (b.shape.norms_embeddings)
      layer_norm = &child<nn::LayerNorm>("layer_norm", hidden, b.config.layer_norm_eps);
  }
  Tensor operator()(const Batch& batch, Pass& pass) const {
    Tensor x_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    if (mask_ >= 0) x_BTD = x_BTD * factors(batch).to(x_BTD.scalar_type());
    if (position_embeddings)
      x_BTD = x_BTD + (*position_embeddings)(nn::positions(pass) + b.shape.first_position, pass);
    return layer_norm ? (*layer_norm)(x_BTD) : x_BTD;
  }

 private:
  // [B,T,1]: 0 on masks, and else by how many tokens of its document are none.
  Tensor factors(const Batch& batch) const {
    const std::int64_t documents = std::ssize(batch.docs);
    const Tensor of_N = documents_of_tokens(batch), is_mask_N = batch.ids_BT.flatten().eq(mask_).to(at::kFloat);
    const auto sums = [&](const Tensor& values_N) {
      return at::zeros({documents + 1}, values_N.options()).index_add(0, of_N, values_N);
    };
    const Tensor masked_S = sums(is_mask_N), all_S = sums(at::ones_like(is_mask_N)).clamp_min(1);
    const Tensor factor_S = (1 - kMaskedInTraining) / (1 - masked_S / all_S);
    return ((1 - is_mask_N) * factor_S.index_select(0, of_N)).view({batch.ids_BT.size(0), -1, 1});
  }

  const Bert& b;
  const std::int64_t mask_;  // whose tokens are 0; -1: none are

 public:
  nn::Embedding& word_embeddings = child<nn::Embedding>("word_embeddings", b.config.vocab_size, b.config.hidden_size,
                                                        b.config.initializer_range, b.shape.no_gradient_id);
  nn::Embedding* position_embeddings = nullptr;
  nn::LayerNorm* layer_norm = nullptr;
};

struct EsmBody final : Module {
  EsmBody(const PreNormBert& model, std::int64_t mask, bool pools)
      : b(model.bert),
        embeddings(child<EsmEmbeddings>("embeddings", b, mask)),
        layer(child<nn::Stack<PreNormLayer>>("encoder.layer", b.config.num_hidden_layers, model)),
        last_norm(child<nn::LayerNorm>(model.family.last_norm, b.config.hidden_size, b.config.layer_norm_eps)) {
    if (pools) child<BertDense>("pooler", b, b.config.hidden_size);  // kept for others
    const auto stays = [](const Tensor& value, const Tensor&) { return value; };  // of a head that hone has not
    buffer("contact_head.regression.weight", {1, b.config.num_hidden_layers * b.config.num_attention_heads},
           {.std = b.config.initializer_range}, stays);
    buffer("contact_head.regression.bias", {1}, {.kind = Init::Kind::zeros}, stays);
  }
  const Bert& b;
  EsmEmbeddings& embeddings;
  nn::Stack<PreNormLayer>& layer;
  nn::LayerNorm& last_norm;
};

class EsmModel final : public EncoderModel {
 public:
  EsmModel(const EsmConfig& config, const HeadRequest& head)
      : EncoderModel({"esm", "Esm", {"lm_head.decoder", "lm_head.bias"}}),
        c_(config),
        m{{"esm", "Esm", "attention.LayerNorm", "LayerNorm", "encoder.emb_layer_norm_after", true, true, {}},
          Bert(with_esm_keys<BertConfig>(config), resolve(config, head))},
        body_(child<EsmBody>(body_name(), m, mask_of(config), !m.bert.shape.has_head())) {
    if (!m.bert.shape.labels.empty()) add_products(c_.hidden_size, m.bert.linear(), /*activation: tanh*/ {});
    if (m.bert.shape.masked_lm)
      add_mask_head({"dense", "layer_norm", ops::Activation::gelu, c_.hidden_size, c_.hidden_size,
                     c_.initializer_range, c_.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body_.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    return {body_.layer.blocks().begin(), body_.layer.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return body_.last_norm(x_1ND); }
  std::int64_t max_positions() const override {
    return c_.max_position_embeddings - (c_.is_rotary() ? 0 : m.bert.shape.first_position);
  }
  bool positions_are_learned() const override { return !c_.is_rotary(); }
  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    const auto flag = [&](const char* key, const std::optional<bool>& value) {
      more.at_or_add(key) = value ? config::Values<bool>::write(*value) : config::Node();
    };
    flag("use_cache", true), flag("is_folding_model", c_.is_folding_model.value_or(false));
    flag("token_dropout", c_.token_dropout.value_or(false)), flag("emb_layer_norm_before", c_.emb_layer_norm_before);
    for (const char* key : {"esmfold_config", "vocab_list"}) more.at_or_add(key) = config::Node();
    more.at_or_add("position_embedding_type") =
        config::Node::scalar(c_.position_embedding_type.value_or("absolute"), /*quoted=*/true);
    return as_hf_config(c_, more, {"hidden_act"});
  }
  // Frequencies, which follow from the configuration.
  bool is_no_weight(const std::string& tensor) const override {
    return EncoderModel::is_no_weight(tensor) || tensor.ends_with("rotary_embeddings.inv_freq") ||
           (c_.is_rotary() && tensor.ends_with("embeddings.position_embeddings.weight"));
  }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.find("contact_head.") != std::string::npos;
  }

 private:
  const EncoderShape& shape() const override { return m.bert.shape; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  static std::int64_t mask_of(const EsmConfig& c) {
    return c.token_dropout.value_or(false) ? parse_int(c.mask_token_id.node.text()).value_or(-1) : -1;
  }

  const EsmConfig c_;
  const PreNormBert m;
  EsmBody& body_;
};

}  // namespace

void register_esm(Registries& hone) {
  hone.models.add<EsmModel, EsmConfig>("esm",
                                       "ESM-1b and ESM-2, of proteins, alone, with a classification head of texts or "
                                       "of tokens, or with one for masked tokens.");
}

}  // namespace hone::models
