// BERT (Devlin et al., 2018): an encoder that reads in both directions, alone, with a classification head, with one
// that answers questions, or with one for masked tokens.
//
// Letters in tensor names: D hidden, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "bert.".
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

class BertModel final : public BertBase {
 public:
  BertModel(const BertConfig& config, const HeadRequest& head) : BertModel(config, resolve(config, head)) {}

 private:
  BertModel(const BertConfig& config, const BertShape& shape)
      : BertBase({"bert", "Bert", {"cls.predictions.decoder", "cls.predictions.bias"}}, config, shape,
                 !shape.masked_lm && !shape.labels.of_tokens) {
    if (!shape.labels.empty()) add_product(config.hidden_size, b.linear());
    if (shape.masked_lm) add_mask_head(mask_form("transform.dense", "transform.LayerNorm", shape.activation));
  }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    return product(at::tanh(body.pooler->dense(first_SD, pass)), b.shape.classifier_dropout, pass);
  }
};

}  // namespace

void register_bert(Registries& hone) {
  hone.models.add<BertModel, BertConfig>(
      "bert",
      "BERT, alone, with a classification head of texts or of tokens, with one that answers questions, or with one for "
      "masked tokens.");
}

}  // namespace hone::models
