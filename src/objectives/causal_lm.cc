// Next-token prediction: token-weighted cross-entropy of every supervised position.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "nn/draw_labels.h"
#include "objectives/divisor.h"
#include "ops/cross_entropy.h"
#include "tensor/host.h"

namespace hone {

namespace objectives {
enum class LossMetric { accuracy, perplexity, z_loss, weight_sum };
enum class TokenLoss { nll, dft, eaft };
}  // namespace objectives

template <>
inline constexpr auto config::enum_names<objectives::LossMetric> =
    std::to_array<std::pair<objectives::LossMetric, std::string_view>>(
        {{objectives::LossMetric::accuracy, "accuracy"},
         {objectives::LossMetric::perplexity, "perplexity"},
         {objectives::LossMetric::z_loss, "z_loss"},
         {objectives::LossMetric::weight_sum, "weight_sum"}});
template <>
inline constexpr auto config::enum_names<objectives::TokenLoss> =
    std::to_array<std::pair<objectives::TokenLoss, std::string_view>>({{objectives::TokenLoss::nll, "nll"},
                                                                       {objectives::TokenLoss::dft, "dft"},
                                                                       {objectives::TokenLoss::eaft, "eaft"}});

}  // namespace hone

namespace hone::objectives {
namespace {

class CausalLmLoss final : public Objective {
 public:
  struct Config {
    TokenLoss loss_type = TokenLoss::nll;
    double eaft_alpha = 1, label_smoothing = 0, z_loss = 0;
    std::int64_t eaft_k = 20;
    std::vector<LossMetric> metrics;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("loss_type", &C::loss_type,
                "What is learnt of a token: nll, the negative logarithm of its probability; dft, that times the "
                "probability, so that what the model finds unlikely pulls no harder (arXiv:2508.05629); eaft, that "
                "times the entropy there, so that what the model is sure of changes little (arXiv:2601.02151). "
                "Evaluations measure nll."),
          field("eaft_alpha", &C::eaft_alpha, "Of eaft: the power of the entropy that a token is weighed by; 0 = nll.",
                {.low = 0, .high = 100}),
          field("eaft_k", &C::eaft_k,
                "Of eaft: of so many likeliest tokens among themselves is the entropy, in nats; of all, where there "
                "are no more.",
                at_least(1)),
          field("label_smoothing", &C::label_smoothing,
                "Share of each target that is spread over the whole vocabulary.", {.low = 0, .high = 0.999}),
          field("z_loss", &C::z_loss, "Weight of the squared log-normaliser, which keeps logits near zero; 0 = off.",
                at_least(0)),
          field("metrics", &C::metrics,
                "Numbers of the training loss besides it: accuracy, of the tokens that are learnt by their weights; "
                "perplexity, exp of the mean loss; z_loss, the part of the loss that is so called; weight_sum, the "
                "tokens' weights, of a step.",
                OnResume::record)};
    }
    void validate(Problems& problems) const {
      const bool z = std::find(metrics.begin(), metrics.end(), LossMetric::z_loss) != metrics.end();
      problems.require(!z || z_loss > 0, "metrics", "z_loss: its weight, z_loss, is 0");
      const bool plain = label_smoothing == 0 && z_loss == 0;
      const std::string name = config::Values<TokenLoss>::write(loss_type).text();
      problems.require(loss_type == TokenLoss::nll || plain, "loss_type",
                       name + ": not with label_smoothing or z_loss");
      const Config usual;
      problems.require(loss_type == TokenLoss::eaft || eaft_alpha == usual.eaft_alpha, "eaft_alpha",
                       "only with loss_type eaft");
      problems.require(loss_type == TokenLoss::eaft || eaft_k == usual.eaft_k, "eaft_k", "only with loss_type eaft");
      const bool perplexity = std::find(metrics.begin(), metrics.end(), LossMetric::perplexity) != metrics.end();
      problems.require(loss_type == TokenLoss::nll || !perplexity, "metrics",
                       fmt::format("perplexity: not of loss_type {}, whose loss is no logarithm of a probability; "
                                   "evaluations measure it",
                                   name));
    }
  };
  explicit CausalLmLoss(const Config& config)
      : options_{.label_smoothing = config.label_smoothing,
                 .z_loss = config.z_loss,
                 .by_probability = config.loss_type == TokenLoss::dft,
                 .by_entropy_of = config.loss_type == TokenLoss::eaft ? config.eaft_k : 0,
                 .entropy_power = config.eaft_alpha},
        metrics_(config.metrics) {}

  Needs needs() const override { return {.pictures = true}; }
  void check(const Model& model) const override { require_causal_lm(model, "objective causal_lm"); }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }

  Sums sums(const Batch& batch) const override {
    return {{kPer, host::number(batch.weight_BT.sum(at::kDouble))}};
  }

  bool draws_labels() const override {
    return !options_.by_probability && options_.by_entropy_of == 0;
  }  // else the gradients are not its likelihood's
  Batch drawn(const Model& model, const Output& output, const Batch& batch, const Pass& pass,
              const Random& random) const override {
    Batch other = batch;
    other.labels_BT = nn::draw_labels(model.causal_lm()->head(), output.hidden_BTD, batch.labels_BT, pass, random);
    return other;
  }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::Head& head = model.causal_lm()->head();
    LossTerms result;
    ops::LossSums measured;
    const bool measures = wants(LossMetric::accuracy) || wants(LossMetric::z_loss);
    ops::CrossEntropyOptions options = options_;
    options.divisor = divisor_of(pass, kPer);
    const Tensor sum = head.cross_entropy(output.hidden_BTD, batch.labels_BT, batch.weight_BT, pass, options,
                                          measures ? &measured : nullptr);
    result.terms.push_back({"loss", sum, kPer});
    if (wants(LossMetric::accuracy)) result.means.push_back({"accuracy", measured.right, measured.weight});
    if (wants(LossMetric::z_loss)) result.means.push_back({"z_loss", measured.z, measured.weight});
    return result;
  }

  bool is_recordable() const override { return true; }
  bool takes_context() const override { return true; }
  bool takes_tensor() const override { return options_.by_entropy_of == 0; }  // which is of whole rows of logits

  void measure_step(const Sums& amounts, std::map<std::string, Metric>& metrics) const override {
    if (wants(LossMetric::weight_sum)) metrics["weight_sum"] = {amounts.at(kPer), 1};
  }

  // Of the mean over the line's steps, and of what log modes say besides it.
  void derive(Metrics& line) const override {
    if (!wants(LossMetric::perplexity)) return;
    for (const std::string mode : {"", "_mean", "_single", "_max"})
      if (const auto loss = line.find("loss" + mode); loss != line.end())
        line["perplexity" + mode] = std::exp(loss->second);
  }

 private:
  static constexpr const char* kPer = "targets";
  bool wants(LossMetric metric) const { return std::find(metrics_.begin(), metrics_.end(), metric) != metrics_.end(); }

  ops::CrossEntropyOptions options_;
  std::vector<LossMetric> metrics_;
};

}  // namespace

void register_causal_lm(Registries& hone) { hone.objectives.add<CausalLmLoss>("causal_lm", "Predict the next token."); }

}  // namespace hone::objectives
