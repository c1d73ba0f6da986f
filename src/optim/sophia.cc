// Sophia (Liu et al., 2023, arXiv:2305.14342) with the Gauss-Newton-Bartlett estimate of the curvature.
#include "optim/elementwise.h"

namespace hone::optim {
namespace {

namespace sophia_element {
#include "optim/elements/sophia.h"
}

struct SophiaDefaults {
  static constexpr double learning_rate = 1e-4, weight_decay = 0.1;
  static constexpr bool decoupled = true;
};

struct SophiaRule {
  static constexpr std::array kKinds{"exp_avg", "hessian"};
  struct Config : Rates<SophiaDefaults> {
    using Base = Rates<SophiaDefaults>;
    std::vector<double> betas{0.965, 0.99};
    double rho = 0.04;
    std::int64_t update_period = 10;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{field("betas", &C::betas, "How much of the old first moment stays, and of the old curvature.",
                           kShare, record),
                     field("rho", &C::rho,
                           "The momentum is divided by this times the curvature, and by no less than its own size.",
                           at_least(0), record),
                     field("update_period", &C::update_period,
                           "Updates between two estimates of the curvature, each of which costs a step's passes.",
                           at_least(1), record)});
    }
    void validate(Problems& problems) const { check_betas(betas, 2, problems); }
  };
  struct Values {
    double learning_rate, beta1, rho;
  };
  static constexpr double kEps = 1e-15;

  static bool is_decoupled(const Config&) { return true; }
  static Values values(const Config& config, std::int64_t, double learning_rate) {
    return {learning_rate, config.betas[0], config.rho};
  }

  static constexpr const char* kElement = "sophia";
  template <class T>
  static sophia_element::Element<T> element(const Values& s, const Common& common) {
    return {T(common.gradient_scale), T(common.keep), T(s.learning_rate), T(1 - s.beta1), T(s.rho), T(kEps)};
  }

  static void plain(Tensor& w, const Tensor& gradient, std::array<Tensor, 2>& state, const Values& s) {
    state[0].add_(gradient - state[0], 1 - s.beta1);
    w.sub_((state[0] / (state[1] * s.rho + kEps)).clamp_(-1, 1), s.learning_rate);
  }
};

class Sophia final : public Elementwise<SophiaRule> {
 public:
  using Elementwise::Elementwise;
  std::int64_t curvature_every() const override { return config_.update_period; }
  void take_curvature(std::span<OptimizedWeight> weights, double labels) override {
    const double stays = config_.betas[1];
    for (const OptimizedWeight& weight : weights)
      if (const Tensor& gradient = weight.gradient; gradient.defined())
        states_[weight.index][1].mul_(stays).addcmul_(gradient, gradient, (1 - stays) * labels);
  }
};

}  // namespace

void register_sophia(Registries& hone) {
  hone.optimizers.add<Sophia>("sophia", "Momentum over an estimate of the curvature, clipped element by element.");
}

}  // namespace hone::optim
