// LAMB (You et al., 2019, arXiv:1904.00962), with the arithmetic of optax.lamb.
#include <cmath>

#include "optim/per_weight.h"

namespace hone::optim {
namespace {

struct LambDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0;
  static constexpr bool decoupled = true;
};

struct Lamb {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq"};
  struct Config : Rates<LambDefaults> {
    using Base = Rates<LambDefaults>;
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-6;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(Base::fields(), std::tuple{field("betas", &C::betas, kBetasDoc, kShare, record),
                                                       field("eps", &C::eps, kEpsDoc, at_least(0), record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  using State = std::array<Tensor, kKinds.size()>;

  static State state(const Config&, const OptimizedWeight& weight) {
    return {at::zeros_like(weight.master), at::zeros_like(weight.master)};
  }

  // The update is as long as the weight, times the learning rate.
  static void update(const Config& config, OptimizedWeight& weight, const Tensor& gradient, State& state,
                     const WeightStep& step) {
    const double t = static_cast<double>(step.update), beta1 = config.betas[0], beta2 = config.betas[1];
    state[0].mul_(beta1).add_(gradient, 1 - beta1);
    state[1].mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    Tensor change = state[0] / (1 - std::pow(beta1, t));
    change.div_((state[1] / (1 - std::pow(beta2, t))).sqrt_().add_(config.eps));
    if (step.weight_decay != 0) change.add_(weight.master, step.weight_decay);
    const double own = norm_of(weight.master), its = norm_of(change);
    weight.master.sub_(change, step.learning_rate * (own > 0 && its > 0 ? own / its : 1.0));
  }
};

}  // namespace

void register_lamb(Registries& hone) {
  hone.optimizers.add<PerWeight<Lamb>>("lamb",
                                       "AdamW whose updates are as long as the weight: for very large batches.");
}

}  // namespace hone::optim
