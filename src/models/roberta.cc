// RoBERTa (Liu et al., 2019, arXiv:1907.11692), and XLM-RoBERTa, CamemBERT and data2vec's model of texts, which are
// the same model: BERT's encoder with positions that count from behind the padding id, alone, with a classification
// head, or with one for masked tokens.
//
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "roberta.", or
// "data2vec_text.".
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

// How transformers calls the classes of each.
std::string classes_of(const std::string& model_type) {
  if (model_type == "data2vec-text") return "Data2VecText";
  return model_type == "xlm-roberta" ? "XLMRoberta" : model_type == "camembert" ? "Camembert" : "Roberta";
}
std::string prefix_of(const std::string& model_type) {
  return model_type == "data2vec-text" ? "data2vec_text" : "roberta";
}

class RobertaModel final : public BertBase {
 public:
  RobertaModel(const RobertaConfig& config, const HeadRequest& head) : RobertaModel(config, resolve(config, head)) {}

 private:
  RobertaModel(const RobertaConfig& config, const BertShape& shape)
      : BertBase({prefix_of(config.model_type), classes_of(config.model_type), {"lm_head.decoder", "lm_head.bias"}},
                 as_bert(config), shape, !shape.has_head()) {
    if (!shape.labels.empty()) add_products(config.hidden_size, b.linear(), /*activation: tanh*/ {});
    if (shape.masked_lm)  // whatever hidden_act says
      add_mask_head(mask_form("dense", "layer_norm", ops::Activation::gelu));
  }
};

}  // namespace

void register_roberta(Registries& hone) {
  hone.models.add<RobertaModel, RobertaConfig>(
      {"roberta", "xlm-roberta", "camembert", "data2vec-text"},
      "RoBERTa, XLM-RoBERTa, CamemBERT and data2vec's model of texts, alone, with a classification head of texts or of "
      "tokens, with one that answers questions, or with one for masked tokens.");
}

}  // namespace hone::models
