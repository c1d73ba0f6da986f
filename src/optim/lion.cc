// Lion (Chen et al., 2023, arXiv:2302.06675): steps of one size, along the sign of a momentum.
#include "optim/elementwise.h"

namespace hone::optim {
namespace {

namespace lion_element {
#include "optim/elements/lion.h"
}

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

  static constexpr const char* kElement = "lion";
  template <class T>
  static lion_element::Element<T> element(const Values& s, const Common& common) {
    return {T(common.gradient_scale), T(common.decay), T(common.keep), T(s.learning_rate),
            T(s.beta1),               T(1 - s.beta1),  T(s.beta2),     T(1 - s.beta2)};
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
