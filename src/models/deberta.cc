// DeBERTa v2 and v3 (He et al., 2020 and 2021, arXiv:2006.03654 and 2111.09543): an encoder whose tokens see each other
// by what they are and by how far apart they stand; alone, with a classification head, one that answers questions, or
// one for masked tokens.
//
// Letters in tensor names: S documents, D hidden.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "deberta.".
#include <ATen/ATen.h>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/deberta_body.h"

namespace hone::models {
namespace {

// Which of two forms its head for masked tokens has.
MaskHeadNames mask_head_of(const DebertaConfig& c) {
  return c.legacy ? MaskHeadNames{"cls.predictions.decoder", "cls.predictions.bias"}
                  : MaskHeadNames{"lm_predictions.lm_head.decoder", "lm_predictions.lm_head.bias"};
}

class DebertaModel final : public EncoderModel {
 public:
  DebertaModel(const DebertaConfig& config, const HeadRequest& head)
      : EncoderModel({"deberta", "DebertaV2", mask_head_of(config)}),
        d(config, head),
        body_(child<DebertaBody>(body_name(), d)) {
    const std::int64_t hidden = d.c.hidden_size;
    if (!d.s.labels.empty()) {
      if (!of_tokens()) pooler_ = &child<nn::Linear>("pooler.dense", hidden, hidden, d.linear());
      add_product(hidden, d.linear());
    }
    if (d.s.masked_lm)
      add_mask_head({d.c.legacy ? "transform.dense" : "dense", d.c.legacy ? "transform.LayerNorm" : "LayerNorm",
                     d.s.activation, hidden, hidden, d.c.initializer_range, d.c.layer_norm_eps});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    if (d.s.c2p || d.s.p2c) pass.plan().left()[kDistances] = body_.encoder.distances(pass);
    return body_.embeddings(batch, pass);
  }
  std::vector<const Block*> blocks() const override {
    return {body_.encoder.layers.begin(), body_.encoder.layers.end()};
  }
  std::int64_t max_positions() const override { return d.c.max_position_embeddings; }
  bool positions_are_learned() const override { return d.c.position_biased_input; }

  config::Node hf_config() const override {
    const DebertaConfig usual;
    std::vector<std::string_view> without;  // transformers has no such keys unless they are given
    if (d.c.position_buckets == usual.position_buckets) without.push_back("position_buckets");
    if (d.c.share_att_key == usual.share_att_key) without.push_back("share_att_key");
    if (d.c.norm_rel_ebd == usual.norm_rel_ebd) without.push_back("norm_rel_ebd");
    if (d.c.conv_kernel_size == usual.conv_kernel_size) without.push_back("conv_kernel_size");
    if (d.c.conv_act == usual.conv_act) without.push_back("conv_act");
    if (d.c.conv_groups == usual.conv_groups) without.push_back("conv_groups");
    config::Node more = config::Node::map();
    if (d.s.kinds > 0) more.at_or_add("pos_att_type") = config::Node::list(position_kinds());
    return as_hf_config(d.c, more, std::move(without));
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
  const EncoderShape& shape() const override { return d.s; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    const Tensor read_SD = nn::dropout(first_SD, d.c.pooler_dropout, pass, "pooler");
    const Tensor pooled_SD = activated((*pooler_)(read_SD, pass), d.s.pooler_activation);
    return product(pooled_SD, d.c.cls_dropout.value_or(d.c.hidden_dropout_prob), pass);
  }
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
  nn::Linear* pooler_ = nullptr;
};

}  // namespace

void register_deberta(Registries& hone) {
  hone.models.add<DebertaModel, DebertaConfig>(
      "deberta-v2",
      "DeBERTa v2 and v3, alone, with a classification head of texts or of tokens, with one that answers questions, or "
      "with one for masked tokens.");
}

}  // namespace hone::models
