// Stochastic gradient descent with momentum and Nesterov's look-ahead, with the arithmetic of torch.optim.SGD.
#include "optim/elementwise.h"

namespace hone::optim {
namespace {

struct SgdDefaults {
  static constexpr double learning_rate = 1e-2, weight_decay = 0;
  static constexpr bool decoupled = false;
};

struct Sgd {
  static constexpr std::array kKinds{"momentum_buffer"};
  struct Config : Rates<SgdDefaults> {
    using Base = Rates<SgdDefaults>;
    double momentum = 0.0, dampening = 0.0;
    bool nesterov = false;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{
              field("momentum", &C::momentum,
                    "How much of the last update's direction stays; 0 = no momentum and no state.", kShare, record),
              field("dampening", &C::dampening, "Share of the gradient that does not enter the momentum.", kShare,
                    record),
              field("nesterov", &C::nesterov, "Look ahead along the momentum.", record)});
    }
    void validate(Problems& problems) const {
      problems.require(dampening == 0 || momentum > 0, "dampening", "needs momentum above 0");
      problems.require(!nesterov || (momentum > 0 && dampening == 0), "nesterov",
                       "needs momentum above 0 and dampening 0");
    }
  };
  struct Values {
    double learning_rate, momentum, gradient_share;  // share of the gradient that enters the buffer
    bool nesterov;
  };

  static bool has(const Config& config, std::size_t) { return config.momentum != 0; }
  static bool is_decoupled(const Config&) { return false; }
  // The first buffer is the gradient itself, whatever the dampening.
  static Values values(const Config& config, std::int64_t t, double learning_rate) {
    return {learning_rate, config.momentum, t == 1 ? 1.0 : 1 - config.dampening, config.nesterov};
  }

  template <class T>
  [[gnu::always_inline]] static inline void loop(const Elements<T, Sgd>& x, const Values& s, const Common& common) {
    const T rate = T(s.learning_rate), momentum = T(s.momentum), share = T(s.gradient_share);
    const T scale = T(common.gradient_scale), decay = T(common.decay);
    const T own = T(s.nesterov ? 1 : 0), ahead = s.nesterov ? momentum : T(1);
    T* __restrict w = x.w;
    const T* __restrict g = x.g;
    T* __restrict buffer = x.state[0];
    if (!buffer) {
#pragma omp simd
      for (std::int64_t i = 0; i < x.size; ++i) w[i] -= rate * (g[i] * scale + decay * w[i]);
      return;
    }
#pragma omp simd
    for (std::int64_t i = 0; i < x.size; ++i) {
      const T gradient = g[i] * scale + decay * w[i];
      const T moved = buffer[i] * momentum + gradient * share;
      buffer[i] = moved;
      w[i] -= rate * (own * gradient + ahead * moved);
    }
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 1>& state, const Values& s) {
    if (!state[0].defined()) return void(w.sub_(gradient, s.learning_rate));
    const Tensor moved = state[0].mul_(s.momentum).add_(gradient, s.gradient_share);
    w.sub_(s.nesterov ? gradient + moved * s.momentum : moved, s.learning_rate);
  }
};

}  // namespace

void register_sgd(Registries& hone) {
  hone.optimizers.add<Elementwise<Sgd>>("sgd", "Stochastic gradient descent, with momentum on request.");
}

}  // namespace hone::optim
