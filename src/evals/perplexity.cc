// Loss, perplexity and accuracy of next-token prediction, token-weighted, with sums in fp64.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "nn/head.h"

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

  void add(const CausalLm& model, const Batch& batch) override {
    const c10::NoGradGuard no_grad;
    const Tensor wanted = batch.labels_BT.ne(-100).flatten().nonzero().squeeze(-1);
    if (wanted.numel() == 0) return;
    Pass pass(batch);
    const Tensor hidden = model.forward(batch, pass).hidden_BTD;
    const Tensor hidden_ND = hidden.flatten(0, 1).index_select(0, wanted);
    const Tensor labels_N = batch.labels_BT.flatten().index_select(0, wanted);
    const std::int64_t chunk = std::max<std::int64_t>(1, kLogitBytes / (model.vocab_size() * 4));
    for (std::int64_t begin = 0; begin < wanted.numel(); begin += chunk) {
      const std::int64_t size = std::min(chunk, wanted.numel() - begin);
      add_chunk(model.head().logits(hidden_ND.narrow(0, begin, size)), labels_N.narrow(0, begin, size));
    }
    if (!std::isfinite(nll_)) throw nn::not_finite(model, "the loss");
  }

  std::vector<std::string> names() const override { return {"loss", "perplexity", "accuracy", "tokens"}; }

  Metrics result() const override {
    if (tokens_ == 0) throw Error(ErrorKind::data, "evaluation: no supervised token");
    const double loss = nll_ / static_cast<double>(tokens_);
    return {{"loss", loss},
            {"perplexity", std::exp(loss)},
            {"accuracy", static_cast<double>(right_) / static_cast<double>(tokens_)},
            {"tokens", static_cast<double>(tokens_)}};
  }

 private:
  void add_chunk(const Tensor& logits_NV, const Tensor& labels_N) {
    const Tensor chosen_N = logits_NV.gather(1, labels_N.unsqueeze(1)).squeeze(1);
    nll_ += (logits_NV.logsumexp(1) - chosen_N).sum(at::kDouble).item<double>();
    right_ += logits_NV.argmax(1).eq(labels_N).sum().item<std::int64_t>();
    tokens_ += labels_N.numel();
  }

  double nll_ = 0;
  std::int64_t tokens_ = 0, right_ = 0;
};

}  // namespace

void register_perplexity(Registries& hone) {
  hone.evals.add<Perplexity>("perplexity", "Loss, perplexity and accuracy of next-token prediction.");
}

}  // namespace hone::evals
