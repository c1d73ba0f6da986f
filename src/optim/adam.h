// The update of Adam (Kingma & Ba, 2014, arXiv:1412.6980) and AdamW (Loshchilov & Hutter, 2017, arXiv:1711.05101), with
// the arithmetic of torch.optim.
#pragma once

#include <cmath>
#include <vector>

#include "optim/elementwise.h"

namespace hone::optim {

namespace adam_element {
#include "optim/elements/adam.h"
}

struct AdamWDefaults {
  static constexpr double learning_rate = 3e-4, weight_decay = 0.01;
  static constexpr bool decoupled = true;
};
struct AdamDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0;
  static constexpr bool decoupled = false;
};

template <class Default>
struct Adam {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq"};
  struct Config : Rates<Default> {
    using Base = Rates<Default>;
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-8;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(Base::fields(), std::tuple{field("betas", &C::betas, kBetasDoc, kShare, record),
                                                       field("eps", &C::eps, kEpsDoc, at_least(0), record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  struct Values {
    double beta1, beta2, eps;
    double step_size;        // learning rate / (1 - beta1^t)
    double root_correction;  // sqrt(1 - beta2^t)
  };

  static bool is_decoupled(const Config&) { return Default::decoupled; }
  static Values values(const Config& config, std::int64_t t, double learning_rate) {
    const double beta1 = config.betas[0], beta2 = config.betas[1], step = static_cast<double>(t);
    return {beta1, beta2, config.eps, learning_rate / (1 - std::pow(beta1, step)),
            std::sqrt(1 - std::pow(beta2, step))};
  }

  static constexpr const char* kElement = "adam";
  template <class T>
  static adam_element::Element<T> element(const Values& s, const Common& common) {
    return {T(common.gradient_scale), T(common.decay), T(common.keep), T(1 - s.beta1),      T(s.beta2),
            T(1 - s.beta2),           T(s.eps),        T(s.step_size), T(s.root_correction)};
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 2>& state, const Values& s) {
    state[0].add_(gradient - state[0], 1 - s.beta1);
    state[1].mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
    w.addcdiv_(state[0], state[1].sqrt().div_(s.root_correction).add_(s.eps), -s.step_size);
  }
};

using AdamW = Adam<AdamWDefaults>;

}  // namespace hone::optim
