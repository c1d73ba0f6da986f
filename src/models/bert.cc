// BERT (Devlin et al., 2018): an encoder that reads in both directions, alone, with a classification head, with one
// that answers questions, or with one for masked tokens.
//
// Letters in tensor names: D hidden, S documents, L labels.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "bert.".
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

class BertModel final : public BertBase {
 public:
  BertModel(const BertConfig& config, const HeadRequest& head) : BertModel(config, resolve(config, head)) {}

  const Classifier* classifier() const override { return head_ ? this : nullptr; }
  Tensor logits(const Output& output, Pass& pass) const override {
    if (answers_questions()) return (*head_)(output.hidden_BTD, pass);
    if (of_tokens()) return (*head_)(drop_for_classifier(output.hidden_BTD, pass, "classifier"), pass);
    const Tensor pooled_SD = at::tanh(body.pooler->dense(first_SD(output, pass), pass));
    return (*head_)(drop_for_classifier(pooled_SD, pass, "classifier"), pass);
  }

  MaskHeadNames mask_head_names() const override { return {"cls.predictions.decoder", "cls.predictions.bias"}; }

 private:
  BertModel(const BertConfig& config, const BertShape& shape) : BertBase(config, shape, "bert", pools(shape)) {
    if (!shape.labels.empty()) head_ = &product_for_labels();
    if (shape.masked_lm)
      mask_head_ = &child<BertMaskHead>("cls.predictions", b, words(),
                                        BertMaskHead::Form{"transform.dense", "transform.LayerNorm", shape.activation});
  }
  static bool pools(const BertShape& shape) { return !shape.masked_lm && !shape.labels.of_tokens; }

  nn::Linear* head_ = nullptr;
};

}  // namespace

void register_bert(Registries& hone) {
  hone.models.add<BertModel, BertConfig>(
      "bert",
      "BERT, alone, with a classification head of texts or of tokens, with one that answers questions, or with one for "
      "masked tokens.");
}

}  // namespace hone::models
