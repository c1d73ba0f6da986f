// NAdam (Dozat, 2016: Incorporating Nesterov Momentum into Adam), with the arithmetic of torch.optim.NAdam.
#include <cmath>

#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct NAdamDefaults {
  static constexpr double learning_rate = 2e-3, weight_decay = 0;
  static constexpr bool decoupled = false;
};

struct NAdam {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq"};
  struct Config : Rates<NAdamDefaults> {
    using Base = Rates<NAdamDefaults>;
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-8, momentum_decay = 4e-3;
    bool decoupled_weight_decay = false;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{field("betas", &C::betas, kBetasDoc, kShare, record),
                     field("eps", &C::eps, kEpsDoc, at_least(0), record),
                     field("momentum_decay", &C::momentum_decay, "How fast the momentum grows to its full share.",
                           at_least(0), record),
                     field("decoupled_weight_decay", &C::decoupled_weight_decay, kDecoupledDoc, record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  struct Values {
    double beta1, beta2, eps, correction2;
    double of_gradient, of_momentum;  // learning rate, by how much of each is in a step
  };

  static bool is_decoupled(const Config& config) { return config.decoupled_weight_decay; }
  static double share(const Config& config, std::int64_t t) {
    return config.betas[0] * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * config.momentum_decay));
  }
  // Of all updates up to t; what was made last is gone on from.
  double product(const Config& config, std::int64_t t) {
    if (t < made_) made_ = 0, product_ = 1;
    while (made_ < t) product_ *= share(config, ++made_);
    return product_;
  }
  Values values(const Config& config, std::int64_t t, double learning_rate) {
    const double now = share(config, t), next = share(config, t + 1), all = product(config, t);
    return {config.betas[0],
            config.betas[1],
            config.eps,
            1 - std::pow(config.betas[1], static_cast<double>(t)),
            learning_rate * (1 - now) / (1 - all),
            learning_rate * next / (1 - all * next)};
  }

  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, NAdam>& x, const Values& s, const Common& common) {
    const T keep = T(common.keep), to_m = T(1 - s.beta1), beta2 = T(s.beta2), to_v = T(1 - s.beta2), eps = T(s.eps);
    const T own = T(s.of_gradient), ahead = T(s.of_momentum), correction = T(s.correction2);
    const T scale = T(common.gradient_scale), decay = T(common.decay);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict m = x.state[0], * __restrict v = x.state[1];
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale + decay * w[i];
      m[i] = m[i] + to_m * (gradient - m[i]);
      v[i] = v[i] * beta2 + to_v * gradient * gradient;
      w[i] = w[i] * keep - (own * gradient + ahead * m[i]) / (square_root(v[i] / correction) + eps);
    }
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 2>& state, const Values& s) {
    state[0].add_(gradient - state[0], 1 - s.beta1);
    state[1].mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
    const Tensor root = (state[1] / s.correction2).sqrt_().add_(s.eps);
    w.addcdiv_(gradient, root, -s.of_gradient).addcdiv_(state[0], root, -s.of_momentum);
  }

 private:
  std::int64_t made_ = 0;
  double product_ = 1;
};

}  // namespace

void register_nadam(Registries& hone) {
  hone.optimizers.add<Elementwise<NAdam>>("nadam", "Adam that looks ahead along its momentum.");
}

}  // namespace hone::optim
