// Lion (Chen et al., 2023, arXiv:2302.06675): steps of one size, along the sign of a momentum.
#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct LionDefaults {
  static constexpr double learning_rate = 1e-4, weight_decay = 0;
  static constexpr bool decoupled = true;
};

struct Lion {
  static constexpr std::array kKinds{"exp_avg"};
  struct Config : Rates<LionDefaults> {
    using Base = Rates<LionDefaults>;
    std::vector<double> betas{0.9, 0.99};
    static constexpr auto fields() {
      return std::tuple_cat(Base::fields(),
                            std::tuple{field("betas", &Config::betas,
                                             "How much of the momentum is in the direction, and how much of it stays.",
                                             kShare, OnResume::record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  struct Values {
    double learning_rate, beta1, beta2;
  };

  static bool is_decoupled(const Config&) { return true; }
  static Values values(const Config& config, std::int64_t, double learning_rate) {
    return {learning_rate, config.betas[0], config.betas[1]};
  }

  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, Lion>& x, const Values& s, const Common& common) {
    const T keep = T(common.keep), rate = T(s.learning_rate), scale = T(common.gradient_scale);
    const T beta1 = T(s.beta1), own = T(1 - s.beta1), beta2 = T(s.beta2), to_m = T(1 - s.beta2);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict m = x.state[0];
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale, direction = m[i] * beta1 + gradient * own;
      const T sign = direction > 0 ? T(1) : direction < 0 ? T(-1) : T(0);
      w[i] = w[i] * keep - rate * sign;
      m[i] = m[i] * beta2 + gradient * to_m;
    }
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 1>& state, const Values& s) {
    w.sub_((state[0] * s.beta1).add_(gradient, 1 - s.beta1).sign_(), s.learning_rate);
    state[0].mul_(s.beta2).add_(gradient, 1 - s.beta2);
  }
};

}  // namespace

void register_lion(Registries& hone) {
  hone.optimizers.add<Elementwise<Lion>>("lion", "Steps along the sign of a momentum; one state tensor.");
}

}  // namespace hone::optim
