// RAdam (Liu et al., 2019, arXiv:1908.03265), with the arithmetic of torch.optim.RAdam.
#include <cmath>

#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct RAdamDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0;
  static constexpr bool decoupled = false;
};

struct RAdam {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq"};
  struct Config : Rates<RAdamDefaults> {
    using Base = Rates<RAdamDefaults>;
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-8;
    bool decoupled_weight_decay = false;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(Base::fields(), std::tuple{field("betas", &C::betas, kBetasDoc, kShare, record),
                                                       field("eps", &C::eps, kEpsDoc, at_least(0), record),
                                                       field("decoupled_weight_decay", &C::decoupled_weight_decay,
                                                             kDecoupledDoc, record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  struct Values {
    double beta1, beta2, eps, step_size;
    bool divides;  // by the root of the second moment: only when its variance is known well enough
  };

  static bool is_decoupled(const Config& config) { return config.decoupled_weight_decay; }
  static Values values(const Config& config, std::int64_t step, double learning_rate) {
    const double t = static_cast<double>(step), beta1 = config.betas[0], beta2 = config.betas[1];
    const double correction2 = 1 - std::pow(beta2, t), plain = learning_rate / (1 - std::pow(beta1, t));
    // Lengths of the averages: of all time, and so far.
    const double all = 2 / (1 - beta2) - 1, now = all - 2 * t * std::pow(beta2, t) / correction2;
    if (now <= 5) return {beta1, beta2, config.eps, plain, false};
    const double rectified = std::sqrt((now - 4) * (now - 2) * all / ((all - 4) * (all - 2) * now));
    return {beta1, beta2, config.eps, plain * rectified * std::sqrt(correction2), true};
  }

  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, RAdam>& x, const Values& s, const Common& common) {
    const T keep = T(common.keep), to_m = T(1 - s.beta1), beta2 = T(s.beta2), to_v = T(1 - s.beta2), eps = T(s.eps);
    const T step = T(s.step_size), scale = T(common.gradient_scale), decay = T(common.decay);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict m = x.state[0], * __restrict v = x.state[1];
    const bool divides = s.divides;
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale + decay * w[i];
      m[i] = m[i] + to_m * (gradient - m[i]);
      v[i] = v[i] * beta2 + to_v * gradient * gradient;
      w[i] = w[i] * keep - step * (divides ? m[i] / (square_root(v[i]) + eps) : m[i]);
    }
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 2>& state, const Values& s) {
    state[0].add_(gradient - state[0], 1 - s.beta1);
    state[1].mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
    w.sub_(s.divides ? state[0] / (state[1].sqrt() + s.eps) : state[0], s.step_size);
  }
};

}  // namespace

void register_radam(Registries& hone) {
  hone.optimizers.add<Elementwise<RAdam>>("radam",
                                          "Adam whose first steps are rectified, so that it needs no warm-up.");
}

}  // namespace hone::optim
