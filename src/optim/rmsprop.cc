// RMSprop (Hinton, 2012; centred: Graves, 2013, arXiv:1308.0850), with the arithmetic of torch.optim.RMSprop.
#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct RmsPropDefaults {
  static constexpr double learning_rate = 1e-2, weight_decay = 0;
  static constexpr bool decoupled = false;
};

struct RmsProp {
  static constexpr std::array kKinds{"square_avg", "grad_avg", "momentum_buffer"};
  enum Kind : std::size_t { kSquares, kMeans, kMomentum };
  struct Config : Rates<RmsPropDefaults> {
    using Base = Rates<RmsPropDefaults>;
    double alpha = 0.99, eps = 1e-8, momentum = 0;
    bool centered = false;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{
              field("alpha", &C::alpha, "How much of the old mean square stays.", kShare, record),
              field("eps", &C::eps, kEpsDoc, at_least(0), record),
              field("momentum", &C::momentum, "How much of the last update stays; 0 = no momentum.", kShare, record),
              field("centered", &C::centered, "Divide by the deviation from the mean gradient.", record)});
    }
  };
  struct Values {
    double learning_rate, alpha, eps, momentum;
  };

  static bool has(const Config& config, std::size_t kind) {
    return kind == kSquares || (kind == kMeans ? config.centered : config.momentum != 0);
  }
  static bool is_decoupled(const Config&) { return false; }
  static Values values(const Config& config, std::int64_t, double learning_rate) {
    return {learning_rate, config.alpha, config.eps, config.momentum};
  }

  // centred and momentum: whether the state is there.
  template <bool centred, bool momentum, class T>
  [[gnu::always_inline]] static inline void loop_of(const Elements<T, RmsProp>& x, const Values& s,
                                                    const Common& common) {
    const T rate = T(s.learning_rate), alpha = T(s.alpha), to_v = T(1 - s.alpha), eps = T(s.eps), stays = T(s.momentum);
    const T scale = T(common.gradient_scale), decay = T(common.decay);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict v = x.state[kSquares], * __restrict mean = x.state[kMeans], * __restrict moved = x.state[kMomentum];
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale + decay * w[i];
      v[i] = v[i] * alpha + to_v * gradient * gradient;
      T square = v[i];
      if constexpr (centred) {
        mean[i] = mean[i] + to_v * (gradient - mean[i]);
        square -= mean[i] * mean[i];
      }
      T step = gradient / (square_root(square) + eps);
      if constexpr (momentum) step = moved[i] = moved[i] * stays + step;
      w[i] -= rate * step;
    }
  }
  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, RmsProp>& x, const Values& s, const Common& common) {
    const bool centred = x.state[kMeans], momentum = x.state[kMomentum];
    if (centred && momentum) return loop_of<true, true>(x, s, common);
    if (centred) return loop_of<true, false>(x, s, common);
    if (momentum) return loop_of<false, true>(x, s, common);
    loop_of<false, false>(x, s, common);
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 3>& state, const Values& s) {
    Tensor square = state[kSquares].mul_(s.alpha).addcmul_(gradient, gradient, 1 - s.alpha);
    if (Tensor& mean = state[kMeans]; mean.defined()) {
      mean.add_(gradient - mean, 1 - s.alpha);
      square = square - mean * mean;
    }
    Tensor step = gradient / (square.sqrt() + s.eps);
    if (state[kMomentum].defined()) step = state[kMomentum].mul_(s.momentum).add_(step);
    w.sub_(step, s.learning_rate);
  }
};

}  // namespace

void register_rmsprop(Registries& hone) {
  hone.optimizers.add<Elementwise<RmsProp>>("rmsprop", "Gradients divided by their running root mean square.");
}

}  // namespace hone::optim
