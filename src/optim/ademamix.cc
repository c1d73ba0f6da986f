// AdEMAMix (Pagliardini et al., 2024, arXiv:2409.03137): Adam with a second, much slower momentum.
#include <algorithm>
#include <cmath>

#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct AdEmaMixDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0;
  static constexpr bool decoupled = true;
};

struct AdEmaMix {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq", "exp_avg_slow"};
  struct Config : Rates<AdEmaMixDefaults> {
    using Base = Rates<AdEmaMixDefaults>;
    std::vector<double> betas{0.9, 0.999, 0.9999};
    double eps = 1e-8, alpha = 5;
    std::int64_t slow_warmup_steps = 0;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{field("betas", &C::betas,
                           "How much stays of the first and second moment, and of the slow momentum.", kShare, record),
                     field("eps", &C::eps, kEpsDoc, at_least(0), record),
                     field("alpha", &C::alpha, "How much of the slow momentum is in a step.", at_least(0), record),
                     field("slow_warmup_steps", &C::slow_warmup_steps,
                           "Steps over which alpha and the slow momentum's beta grow to their values; 0 = at once. The "
                           "paper takes those of the whole run.",
                           at_least(0), record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 3, problems); }
  };
  struct Values {
    double learning_rate, beta1, beta2, beta3, eps, alpha, correction1, root_correction2;
  };

  static bool is_decoupled(const Config&) { return true; }
  static Values values(const Config& config, std::int64_t step, double learning_rate) {
    const double t = static_cast<double>(step), beta1 = config.betas[0], beta2 = config.betas[1];
    double beta3 = config.betas[2], alpha = config.alpha;
    if (step < config.slow_warmup_steps) {  // the slow momentum's half-life grows along a straight line
      const double share = t / static_cast<double>(config.slow_warmup_steps);
      const double fast = std::log(beta1), slow = std::log(beta3);
      alpha *= share;
      if (beta1 > 0 && beta3 > 0) beta3 = std::min(beta3, std::exp(fast * slow / ((1 - share) * slow + share * fast)));
    }
    return {learning_rate,
            beta1,
            beta2,
            beta3,
            config.eps,
            alpha,
            1 - std::pow(beta1, t),
            std::sqrt(1 - std::pow(beta2, t))};
  }

  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, AdEmaMix>& x, const Values& s,
                                                 const Common& common) {
    const T keep = T(common.keep), rate = T(s.learning_rate), scale = T(common.gradient_scale), alpha = T(s.alpha);
    const T to_m = T(1 - s.beta1), beta2 = T(s.beta2), to_v = T(1 - s.beta2), to_slow = T(1 - s.beta3), eps = T(s.eps);
    const T correction = T(s.correction1), root_correction = T(s.root_correction2);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict m = x.state[0], * __restrict v = x.state[1], * __restrict slow = x.state[2];
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale;
      m[i] = m[i] + to_m * (gradient - m[i]);
      v[i] = v[i] * beta2 + to_v * gradient * gradient;
      slow[i] = slow[i] + to_slow * (gradient - slow[i]);
      w[i] = w[i] * keep - rate * (m[i] / correction + alpha * slow[i]) / (square_root(v[i]) / root_correction + eps);
    }
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 3>& state, const Values& s) {
    state[0].add_(gradient - state[0], 1 - s.beta1);
    state[1].mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
    state[2].add_(gradient - state[2], 1 - s.beta3);
    w.addcdiv_(state[0] / s.correction1 + state[2] * s.alpha, state[1].sqrt().div_(s.root_correction2).add_(s.eps),
               -s.learning_rate);
  }
};

}  // namespace

void register_ademamix(Registries& hone) {
  hone.optimizers.add<Elementwise<AdEmaMix>>("ademamix", "AdamW with a second, slow momentum.");
}

}  // namespace hone::optim
