// ERNIE (Sun et al., 2019 to 2021, arXiv:1904.09223 and 2107.02137): BERT's encoder, in later versions with a row for
// the task that a text is of; alone, with a classification head, with one that answers questions, or with one for
// masked tokens.
//
// Letters in tensor names: S documents, D hidden.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "ernie.".
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

struct OfErnie : UsualOfEncoders {
  static constexpr const char *kType = "ernie", *kOfType = "ernie.";
};

struct ErnieConfig : BertKeys<OfErnie> {
  using Base = BertKeys<OfErnie>;
  std::int64_t task_type_vocab_size = 3;
  bool use_task_id = false;

  static constexpr auto fields() {
    using C = ErnieConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("task_type_vocab_size", &C::task_type_vocab_size,
                         "Rows of the table of tasks, of which all texts have the first.",
                         {.low = 1, .high = 2147483647}),
                   field("use_task_id", &C::use_task_id, "There is such a table.")});
  }
  void validate(Problems& problems) const { as_bert(*this).validate(problems); }
};

BertShape resolve(const ErnieConfig& c, const HeadRequest& head) {
  BertShape s = resolve(as_bert(c), head);
  if (c.use_task_id) s.task_types = c.task_type_vocab_size;
  return s;
}

class ErnieModel final : public BertBase {
 public:
  ErnieModel(const ErnieConfig& config, const HeadRequest& head) : ErnieModel(config, resolve(config, head)) {}
  config::Node hf_config() const override { return with_bert_keys(c_); }

 private:
  ErnieModel(const ErnieConfig& config, const BertShape& shape)
      : BertBase({"ernie", "Ernie", {"cls.predictions.decoder", "cls.predictions.bias"}}, as_bert(config), shape,
                 !shape.masked_lm && !shape.labels.of_tokens),
        c_(config) {
    if (!shape.labels.empty()) add_product(config.hidden_size, b.linear());
    if (shape.masked_lm) add_mask_head(mask_form("transform.dense", "transform.LayerNorm", shape.activation));
  }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    return product(at::tanh(body.pooler->dense(first_SD, pass)), b.shape.classifier_dropout, pass);
  }

  const ErnieConfig c_;
};

}  // namespace

void register_ernie(Registries& hone) {
  hone.models.add<ErnieModel, ErnieConfig>(
      "ernie",
      "ERNIE, alone, with a classification head of texts or of tokens, with one that answers questions, or with one "
      "for masked tokens.");
}

}  // namespace hone::models
