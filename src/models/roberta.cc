// RoBERTa (Liu et al., 2019, arXiv:1907.11692), and XLM-RoBERTa and CamemBERT, which are the same model: BERT's encoder
// with positions that count from behind the padding id, alone, with a classification head, or with one for masked
// tokens.
//
// Letters in tensor names: D hidden, S documents, L labels.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "roberta.".
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

struct ClassificationHead final : Module {
  explicit ClassificationHead(const Bert& bert) : b(bert) {}
  const Bert& b;
  nn::Linear& dense = child<nn::Linear>("dense", b.config.hidden_size, b.config.hidden_size, b.linear());
  nn::Linear& out_proj =
      child<nn::Linear>("out_proj", b.config.hidden_size, std::ssize(b.shape.labels.names), b.linear());
};

class RobertaModel final : public BertBase {
 public:
  RobertaModel(const RobertaConfig& config, const HeadRequest& head)
      : RobertaModel(as_bert(config), resolve(as_bert(config), head)) {}

  const Classifier* classifier() const override { return head_ || of_each_token_ ? this : nullptr; }
  Tensor logits(const Output& output, Pass& pass) const override {
    if (answers_questions()) return (*of_each_token_)(output.hidden_BTD, pass);
    if (of_each_token_) return (*of_each_token_)(drop_for_classifier(output.hidden_BTD, pass, "classifier"), pass);
    const Tensor x_SD = drop_for_classifier(first_SD(output, pass), pass, "classifier");
    const Tensor inner_SD = at::tanh(head_->dense(x_SD, pass));
    return head_->out_proj(drop_for_classifier(inner_SD, pass, "classifier/inner"), pass);
  }

  MaskHeadNames mask_head_names() const override { return {"lm_head.decoder", "lm_head.bias"}; }

 private:
  RobertaModel(const BertConfig& config, const BertShape& shape)
      : BertBase(config, shape, "roberta", shape.labels.empty() && !shape.masked_lm) {
    if (shape.labels.of_tokens)
      of_each_token_ = &product_for_labels();
    else if (!shape.labels.empty())
      head_ = &child<ClassificationHead>("classifier", b);
    if (shape.masked_lm)  // whatever hidden_act says
      mask_head_ =
          &child<BertMaskHead>("lm_head", b, words(), BertMaskHead::Form{"dense", "layer_norm", ops::Activation::gelu});
  }
  ClassificationHead* head_ = nullptr;  // of texts
  nn::Linear* of_each_token_ = nullptr;
};

}  // namespace

void register_roberta(Registries& hone) {
  hone.models.add<RobertaModel, RobertaConfig>(
      {"roberta", "xlm-roberta", "camembert"},
      "RoBERTa, XLM-RoBERTa and CamemBERT, alone, with a classification head of texts or of tokens, with one that "
      "answers questions, or with one for masked tokens.");
}

}  // namespace hone::models
