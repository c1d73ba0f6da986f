// Loss, perplexity and accuracy of next-token prediction, token-weighted, with sums in fp64.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "nn/context.h"
#include "nn/finite.h"
#include "ops/cross_entropy.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

constexpr std::int64_t kLogitBytes = std::int64_t{16} << 20;

// Letters: N supervised tokens, V vocabulary.
class Perplexity final : public Evaluation {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  explicit Perplexity(const Config&) {}

  bool reads_pictures() const override { return true; }
  void check(const Model& model) const override { require_language_model(model, "evaluation perplexity"); }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const CausalLm& lm = *model.causal_lm();
    if (batch.context && batch.context->shares_weights()) return of_own_tokens(model, output, batch, pass);
    Measured all;
    const Tensor wanted = batch.labels_BT.ne(-100).flatten().nonzero().squeeze(-1);
    const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1).index_select(0, wanted);
    const Tensor labels_N = batch.labels_BT.flatten().index_select(0, wanted);
    const std::int64_t chunk = std::max<std::int64_t>(1, kLogitBytes / (lm.vocab_size() * 4));
    for (std::int64_t begin = 0; begin < wanted.numel(); begin += chunk) {
      const std::int64_t size = std::min(chunk, wanted.numel() - begin);
      add_chunk(lm.head().logits(hidden_ND.narrow(0, begin, size), pass), labels_N.narrow(0, begin, size), all);
    }
    if (!std::isfinite(all.nll)) throw nn::not_finite(model, "the loss");
    return {
        {"nll", all.nll}, {"right", static_cast<double>(all.right)}, {"tokens", static_cast<double>(wanted.numel())}};
  }

  std::vector<std::string> names() const override { return {"loss", "perplexity", "accuracy", "tokens"}; }

  bool greater_is_better(const std::string& name) const override { return name == "accuracy"; }

  Metrics result(const Sums& total) const override {
    const double tokens = total.at("tokens");
    if (tokens == 0) throw Error(ErrorKind::data, "evaluation: no supervised token");
    const double loss = total.at("nll") / tokens;
    return {
        {"loss", loss}, {"perplexity", std::exp(loss)}, {"accuracy", total.at("right") / tokens}, {"tokens", tokens}};
  }

 private:
  struct Measured {
    double nll = 0;
    std::int64_t right = 0;
  };
  // No rank has whole logits: sums of losses are in the head's type.
  static Sums of_own_tokens(const Model& model, const Output& output, const Batch& batch, const Pass& pass) {
    ops::LossSums sums;
    const nn::Head& head = model.causal_lm()->head();
    const double nll = host::number(head.cross_entropy(output.hidden_BTD, batch.labels_BT, {}, pass, {}, &sums));
    if (!std::isfinite(nll)) throw nn::not_finite(model, "the loss");
    return {{"nll", nll}, {"right", host::number(sums.right)}, {"tokens", host::number(sums.weight)}};
  }
  static void add_chunk(const Tensor& logits_NV, const Tensor& labels_N, Measured& all) {
    const Tensor chosen_N = logits_NV.gather(1, labels_N.unsqueeze(1)).squeeze(1);
    all.nll += host::number((logits_NV.logsumexp(1) - chosen_N).sum(at::kDouble));
    all.right += static_cast<std::int64_t>(host::number(logits_NV.argmax(1).eq(labels_N).sum()));
  }
};

}  // namespace

void register_perplexity(Registries& hone) {
  hone.evals.add<Perplexity>("perplexity", "Loss, perplexity and accuracy of next-token prediction.");
}

}  // namespace hone::evals
