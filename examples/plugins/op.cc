// An op, poly: -log p + epsilon (1 - p) of log-probabilities (Poly-1, Leng et al., 2022), and an objective with it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/op.h"
#include "hone/registry.h"

namespace {

using namespace hone;

// What the op means, in plain ATen: it runs on every device, in every type, and autograd makes its gradient.
Tensor plain_poly(const Tensor& log_p, double epsilon) { return epsilon * (1 - log_p.exp()) - log_p; }

// The kernel: values and slopes in one pass. It knows nothing of tensors.
void poly_kernel(const float* log_p, std::int64_t size, float epsilon, float* y, float* slope) {
  for (std::int64_t i = 0; i < size; ++i) {
    const float p = std::exp(log_p[i]);
    y[i] = epsilon * (1 - p) - log_p[i];
    slope[i] = -1 - epsilon * p;
  }
}

// What autograd knows of it: forward leaves what backward needs.
class PolyFunction : public torch::autograd::Function<PolyFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& log_p, double epsilon) {
    const Tensor y = at::empty_like(log_p), slope = at::empty_like(log_p);
    at::parallel_for(0, log_p.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      poly_kernel(log_p.const_data_ptr<float>() + begin, end - begin, static_cast<float>(epsilon),
                  y.mutable_data_ptr<float>() + begin, slope.mutable_data_ptr<float>() + begin);
    });
    ctx->save_for_backward({slope});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list dy) {
    return {dy[0] * ctx->get_saved_variables()[0], Tensor()};
  }
};

// The op: its kernel where the tensors fit, else its meaning.
Tensor poly(const Tensor& log_p, double epsilon) {
  const bool fits = ops::cpu_kernel_fits({log_p}) && log_p.scalar_type() == at::kFloat && log_p.is_contiguous();
  return fits ? PolyFunction::apply(log_p, epsilon) : plain_poly(log_p, epsilon);
}

class PolyLoss final : public Objective {
 public:
  struct Config {
    double epsilon = 1;
    static constexpr auto fields() {
      return std::tuple{field("epsilon", &Config::epsilon, "How much 1 - p counts; 0 = cross-entropy.", at_least(-1))};
    }
  };
  explicit PolyLoss(const Config& config) : epsilon_(config.epsilon) {}

  void check(const Model& model) const override { require_causal_lm(model, "objective poly"); }
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }
  Sums sums(const Batch& batch) const override { return {{"targets", double(batch.supervised)}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1);
    const Tensor counts_N = batch.labels_BT.ne(-100).flatten(), labels_N = batch.labels_BT.flatten().clamp_min(0);
    const Tensor log_p_NV = model.causal_lm()->head().logits(hidden_ND, pass).log_softmax(-1);
    const Tensor log_p_N = log_p_NV.gather(1, labels_N.unsqueeze(1)).squeeze(1).contiguous();
    LossTerms result;
    result.terms.push_back({"loss", (poly(log_p_N, epsilon_) * counts_N).sum(), "targets"});
    return result;
  }

 private:
  double epsilon_;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.objectives.add<PolyLoss>("poly", "Predict the next token; what is improbable counts more, or less.");
}
