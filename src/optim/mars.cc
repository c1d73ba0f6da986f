// MARS (Yuan et al., 2024, arXiv:2411.10438): AdamW on gradients corrected by how they changed since the last step,
// with the arithmetic of the authors' MARS-AdamW; plain AdamW for norms and biases.
#include <cmath>

#include "optim/per_weight.h"
#include "optim/rest.h"

namespace hone::optim {
namespace {

struct MarsDefaults {
  static constexpr double learning_rate = 3e-3, weight_decay = 0;
  static constexpr bool decoupled = true;
};

struct MarsConfig : Rates<MarsDefaults> {
  using Base = Rates<MarsDefaults>;
  std::vector<double> betas{0.95, 0.99};
  double eps = 1e-8, gamma = 0.025;
  Rest adamw{.learning_rate = 3e-3, .betas = {0.9, 0.95}, .weight_decay = 0.1};
  static constexpr auto fields() {
    using C = MarsConfig;
    constexpr OnResume record = OnResume::record;
    return std::tuple_cat(
        Base::fields(), std::tuple{field("betas", &C::betas, kBetasDoc, kShare, record),
                                   field("eps", &C::eps, kEpsDoc, at_least(0), record),
                                   field("gamma", &C::gamma,
                                         "How much of a gradient's change corrects it; 0 = AdamW with its gradient "
                                         "clipped to a norm of 1.",
                                         at_least(0), record),
                                   field("adamw", &C::adamw, "AdamW for norms and biases; its schedule is the same.")});
  }
  void validate(Problems& problems) const { check_betas(betas, 2, problems); }
};

struct Corrected {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq", "last_grad"};
  using Config = MarsConfig;
  using State = std::array<Tensor, kKinds.size()>;

  static State state(const Config&, const OptimizedWeight& weight) {
    const Tensor& w = weight.master;
    return {at::zeros_like(w), at::zeros_like(w), at::zeros_like(w)};
  }

  static void update(const Config& config, OptimizedWeight& weight, const Tensor& gradient, State& state,
                     const WeightStep& step) {
    const double t = static_cast<double>(step.update), beta1 = config.betas[0], beta2 = config.betas[1];
    Tensor corrected = (gradient - state[2]).mul_(config.gamma * beta1 / (1 - beta1)).add_(gradient);
    state[2].copy_(gradient);
    if (const double norm = norm_of(corrected); norm > 1) corrected.div_(norm);
    state[0].add_(corrected - state[0], 1 - beta1);
    state[1].mul_(beta2).addcmul_(corrected, corrected, 1 - beta2);
    const Tensor root = state[1].sqrt().div_(std::sqrt(1 - std::pow(beta2, t))).add_(config.eps);
    weight.master.mul_(1 - step.learning_rate * step.weight_decay)
        .addcdiv_(state[0], root, -step.learning_rate / (1 - std::pow(beta1, t)));
  }
};

class Mars final : public Split {
 public:
  using Config = MarsConfig;
  explicit Mars(const Config& config)
      : Split(with_rest<PerWeight<Corrected>>("mars", config),
              [](const OptimizedWeight& weight) { return is_matrix(weight) ? 0 : 1; }) {}
};

}  // namespace

void register_mars(Registries& hone) {
  hone.optimizers.add<Mars>("mars", "AdamW on gradients whose noise their own change has reduced.");
}

}  // namespace hone::optim
