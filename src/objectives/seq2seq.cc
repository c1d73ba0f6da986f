// Targets from sources: token-weighted cross-entropy of each target's tokens, as Hugging Face's Seq2SeqTrainer learns
// them (Sutskever et al., 2014, arXiv:1409.3215).
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "objectives/divisor.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

class Seq2Seq final : public Objective {
 public:
  struct Config {
    std::optional<std::int64_t> max_target_length;
    std::string src_lang, tgt_lang;
    double label_smoothing = 0, z_loss = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field(
              "max_target_length", &C::max_target_length,
              "Tokens of a target at most; the rest is cut, as data.overlong says. Default: data.max_length, which is "
              "of sources.",
              at_least(1)),
          field("src_lang", &C::src_lang,
                "Token of the sources' language, as en_XX or eng_Latn, in place of the one that the tokenizer puts "
                "around a text."),
          field("tgt_lang", &C::tgt_lang,
                "Likewise of the targets'; answers that are written for evaluations begin with it."),
          field("label_smoothing", &C::label_smoothing,
                "Share of each target token that is spread over the whole vocabulary.", {.low = 0, .high = 0.999}),
          field("z_loss", &C::z_loss, "Weight of the squared log-normaliser, which keeps logits near zero; 0 = off.",
                at_least(0))};
    }
  };
  explicit Seq2Seq(const Config& config)
      : most_(config.max_target_length),
        source_language_(config.src_lang),
        target_language_(config.tgt_lang),
        options_{.label_smoothing = config.label_smoothing, .z_loss = config.z_loss} {}

  Needs needs() const override {
    return {.records = RecordKind::seq2seq,
            .max_target_length = most_,
            .source_language = source_language_,
            .target_language = target_language_};
  }
  void check(const Model& model) const override {
    require_seq2seq_lm(model, "objective seq2seq");
    if (most_) model.check_length(*most_, "objective.max_target_length");
  }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }

  Sums sums(const Batch& batch) const override { return {{kPer, host::number(batch.weight_BT.sum(at::kDouble))}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    ops::CrossEntropyOptions options = options_;
    options.divisor = divisor_of(pass, kPer);
    LossTerms result;
    result.terms.push_back(
        {"loss",
         model.seq2seq_lm()->head().cross_entropy(output.hidden_BTD, batch.labels_BT, batch.weight_BT, pass, options),
         kPer});
    return result;
  }

 private:
  static constexpr const char* kPer = "targets";
  std::optional<std::int64_t> most_;
  std::string source_language_, target_language_;
  ops::CrossEntropyOptions options_;
};

}  // namespace

void register_seq2seq(Registries& hone) {
  hone.objectives.add<Seq2Seq>("seq2seq", "Answer sources with targets, by a model with an encoder and a decoder.");
}

}  // namespace hone::objectives
