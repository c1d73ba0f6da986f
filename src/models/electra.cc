// ELECTRA (Clark et al., 2020, arXiv:2003.10555): BERT's encoder, often with narrower tables; alone, with a
// classification head, with one that answers questions, or, as its generator, with one for masked tokens.
//
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "electra.".
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

struct OfElectra : UsualOfEncoders {
  static constexpr const char *kType = "electra", *kOfType = "electra.";
  static constexpr std::int64_t kHidden = 256, kHeads = 4, kInner = 1024;
};

struct ElectraConfig : BertKeys<OfElectra> {
  using Base = BertKeys<OfElectra>;
  std::int64_t embedding_size = 128;
  std::string summary_type = "first", summary_activation = "gelu";
  bool summary_use_proj = true;
  double summary_last_dropout = 0.1;

  static constexpr auto fields() {
    using C = ElectraConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("embedding_size", &C::embedding_size, "Width of the tables.",
                         {.low = 1, .high = 2147483647}),
                   field("summary_type", &C::summary_type,
                         "Kept for others: of a head that hone has not, as the other summaries."),
                   field("summary_use_proj", &C::summary_use_proj, "Kept for others."),
                   field("summary_activation", &C::summary_activation, "Kept for others."),
                   field("summary_last_dropout", &C::summary_last_dropout, "Kept for others.",
                         {.low = 0, .high = 0.999})});
  }
  void validate(Problems& problems) const { as_bert(*this).validate(problems); }
};

BertShape resolve(const ElectraConfig& c, const HeadRequest& head) {
  BertShape s = resolve(as_bert(c), head);
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

class ElectraModel final : public BertBase {
 public:
  ElectraModel(const ElectraConfig& config, const HeadRequest& head)
      : BertBase({"electra", "Electra", {"generator_lm_head", "generator_lm_head.bias"}}, as_bert(config),
                 resolve(config, head), /*pools=*/false),
        c_(config) {
    if (!b.shape.labels.empty()) add_products(c_.hidden_size, b.linear(), ops::Activation::gelu);
    if (!b.shape.masked_lm) return;
    generator_ = &child<GeneratorPredictions>("generator_predictions", b);
    add_mask_product(b.table_width(), c_.initializer_range);
  }

  config::Node hf_config() const override { return with_bert_keys(c_); }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override { return (*generator_)(hidden, pass); }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("generator_predictions.");
  }

 private:
  const ElectraConfig c_;
  GeneratorPredictions* generator_ = nullptr;
};

}  // namespace

void register_electra(Registries& hone) {
  hone.models.add<ElectraModel, ElectraConfig>(
      "electra",
      "ELECTRA, alone, with a classification head of texts or of tokens, with one that answers questions, or with one "
      "for masked tokens.");
}

}  // namespace hone::models
