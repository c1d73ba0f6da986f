// DeBERTa v2 and v3 (He et al., 2020 and 2021, arXiv:2006.03654 and 2111.09543): an encoder whose tokens see each other
// by what they are and by how far apart they stand; alone, with a classification head, one that answers questions, or
// one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "deberta.".
#include <ATen/ATen.h>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/deberta_body.h"
#include "models/encoder_model.h"

namespace hone::models {
namespace {

class DebertaModel final : public EncoderModel {
 public:
  DebertaModel(const DebertaConfig& config, const HeadRequest& head)
      : EncoderModel(d.s, "deberta"), d(config, head), body_(child<DebertaBody>(body_name(), d)) {
    const std::int64_t hidden = d.c.hidden_size;
    if (!d.s.labels.empty()) {
      if (!of_tokens()) pooler_ = &child<nn::Linear>("pooler.dense", hidden, hidden, d.linear());
      product_ = &child<nn::Linear>(answers_questions() ? "qa_outputs" : "classifier", hidden,
                                    std::ssize(d.s.labels.names), d.linear());
    }
    if (d.s.masked_lm)
      mask_head_ = &child<MaskHead>(
          d.c.legacy ? "cls.predictions" : "lm_predictions.lm_head", words(), d.c.vocab_size,
          MaskHead::Form{d.c.legacy ? "transform.dense" : "dense", d.c.legacy ? "transform.LayerNorm" : "LayerNorm",
                         d.s.activation, hidden, hidden, d.c.initializer_range, d.c.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    if (d.s.c2p || d.s.p2c) pass.plan().left()[kDistances] = body_.encoder.distances(pass);
    return body_.embeddings(batch, pass);
  }
  std::vector<const Block*> blocks() const override {
    return {body_.encoder.layers.begin(), body_.encoder.layers.end()};
  }
  std::int64_t vocab_size() const override { return d.c.vocab_size; }
  std::int64_t max_positions() const override { return d.c.max_position_embeddings; }
  bool positions_are_learned() const override { return d.c.position_biased_input; }
  std::vector<AttentionLayer> attention() const override {
    const AttentionLayer layer{d.c.num_attention_heads, d.s.head_size, /*window=*/0, /*causal=*/false};
    return std::vector<AttentionLayer>(body_.encoder.layers.size(), layer);
  }

  config::Node hf_config() const override {
    config::Node node = config::write(d.c);
    const DebertaConfig usual;
    const auto drop = [&](const char* key, bool is_usual) {  // transformers has no such keys unless they are given
      if (is_usual) std::erase_if(node.entries(), [&](const config::Node::Entry& entry) { return entry.first == key; });
    };
    drop("position_buckets", d.c.position_buckets == usual.position_buckets);
    drop("share_att_key", d.c.share_att_key == usual.share_att_key);
    drop("norm_rel_ebd", d.c.norm_rel_ebd == usual.norm_rel_ebd);
    drop("conv_kernel_size", d.c.conv_kernel_size == usual.conv_kernel_size);
    drop("conv_act", d.c.conv_act == usual.conv_act);
    drop("conv_groups", d.c.conv_groups == usual.conv_groups);
    if (d.s.kinds > 0) {
      config::Node kinds = config::Node::list({});
      for (const config::Node& kind : position_kinds()) kinds.items().push_back(kind);
      node.at_or_add("pos_att_type") = kinds;
    }
    return as_hf_config(std::move(node), "DebertaV2", d.c,
                        {{"hidden_dropout_prob", d.c.hidden_dropout_prob},
                         {"attention_probs_dropout_prob", d.c.attention_probs_dropout_prob},
                         {"pooler_dropout", d.c.pooler_dropout},
                         {"initializer_range", d.c.initializer_range},
                         {"layer_norm_eps", d.c.layer_norm_eps}},
                        {{"bos_token_id", d.c.bos_token_id.node},
                         {"eos_token_id", d.c.eos_token_id.node},
                         {"pad_token_id", d.c.pad_token_id.node}});
  }

  Tensor logits(const Output& output, Pass& pass) const override {
    if (answers_questions()) return (*product_)(output.hidden_BTD, pass);
    if (of_tokens()) return (*product_)(d.drop(output.hidden_BTD, pass, "classifier"), pass);
    const Tensor first = nn::dropout(first_SD(output, pass), d.c.pooler_dropout, pass, "pooler");
    const Tensor pooled_SD = activated((*pooler_)(first, pass), d.s.pooler_activation);
    return (*product_)(nn::dropout(pooled_SD, d.c.cls_dropout.value_or(d.c.hidden_dropout_prob), pass, "classifier"),
                       pass);
  }

  MaskHeadNames mask_head_names() const override {
    return d.c.legacy ? MaskHeadNames{"cls.predictions.decoder", "cls.predictions.bias"}
                      : MaskHeadNames{"lm_predictions.lm_head.decoder", "lm_predictions.lm_head.bias"};
  }
  // Version 3's folders have heads of its training, and positions that it does not use.
  bool is_no_weight(const std::string& tensor) const override {
    return EncoderModel::is_no_weight(tensor) ||
           (!d.c.position_biased_input && tensor.ends_with("embeddings.position_embeddings.weight"));
  }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("mask_predictions.") ||
           weight.starts_with("lm_predictions.") || weight.starts_with("cls.");
  }

 private:
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  std::vector<config::Node> position_kinds() const {
    std::vector<config::Node> kinds;
    const config::Node& given = d.c.pos_att_type.node;
    if (given.kind() == config::Node::Kind::list) return given.items();
    for (const std::string& part : split(given.text(), '|'))
      kinds.push_back(config::Node::scalar(std::string(trim(part)), /*quoted=*/true));
    return kinds;
  }

  const Deberta d;
  DebertaBody& body_;
  nn::Linear *pooler_ = nullptr, *product_ = nullptr;
};

}  // namespace

void register_deberta(Registries& hone) {
  hone.models.add<DebertaModel, DebertaConfig>(
      "deberta-v2",
      "DeBERTa v2 and v3, alone, with a classification head of texts or of tokens, with one that answers questions, or "
      "with one for masked tokens.");
}

}  // namespace hone::models
