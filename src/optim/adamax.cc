// AdaMax (Kingma & Ba, 2014, arXiv:1412.6980, section 7), with the arithmetic of torch.optim.Adamax.
#include <cmath>

#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct AdaMaxDefaults {
  static constexpr double learning_rate = 2e-3, weight_decay = 0;
  static constexpr bool decoupled = false;
};

struct AdaMax {
  static constexpr std::array kKinds{"exp_avg", "exp_inf"};
  struct Config : Rates<AdaMaxDefaults> {
    using Base = Rates<AdaMaxDefaults>;
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-8;
    bool decoupled_weight_decay = false;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{
              field("betas", &C::betas, "How much of the mean and of the largest gradient stays.", kShare, record),
              field("eps", &C::eps, "Added to each gradient's size.", at_least(0), record),
              field("decoupled_weight_decay", &C::decoupled_weight_decay, kDecoupledDoc, record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  struct Values {
    double beta1, beta2, eps, step_size;  // learning rate / (1 - beta1^t)
  };

  static bool is_decoupled(const Config& config) { return config.decoupled_weight_decay; }
  static Values values(const Config& config, std::int64_t t, double learning_rate) {
    return {config.betas[0], config.betas[1], config.eps,
            learning_rate / (1 - std::pow(config.betas[0], static_cast<double>(t)))};
  }

  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, AdaMax>& x, const Values& s, const Common& common) {
    const T keep = T(common.keep), to_m = T(1 - s.beta1), beta2 = T(s.beta2), eps = T(s.eps), step = T(s.step_size);
    const T scale = T(common.gradient_scale), decay = T(common.decay);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict m = x.state[0], * __restrict most = x.state[1];
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale + decay * w[i];
      m[i] = m[i] + to_m * (gradient - m[i]);
      const T before = most[i] * beta2, now = (gradient < 0 ? -gradient : gradient) + eps;
      most[i] = before > now ? before : now;
      w[i] = w[i] * keep - step * m[i] / most[i];
    }
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 2>& state, const Values& s) {
    state[0].add_(gradient - state[0], 1 - s.beta1);
    state[1].copy_(at::maximum(state[1] * s.beta2, gradient.abs().add_(s.eps)));
    w.addcdiv_(state[0], state[1], -s.step_size);
  }
};

}  // namespace

void register_adamax(Registries& hone) {
  hone.optimizers.add<Elementwise<AdaMax>>("adamax", "Adam that divides by the largest recent gradient.");
}

}  // namespace hone::optim
