// Adafactor (Shazeer and Stern, 2018, arXiv:1804.04235), with the arithmetic of transformers' and fairseq's.
#include <algorithm>
#include <cmath>

#include "optim/per_weight.h"

namespace hone::optim {
namespace {

struct AdafactorDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0;
  static constexpr bool decoupled = true;
};

struct Adafactor {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col"};
  struct Config : Rates<AdafactorDefaults> {
    using Base = Rates<AdafactorDefaults>;
    double beta1 = 0, decay_rate = -0.8, clip_threshold = 1.0;
    std::vector<double> eps{1e-30, 1e-3};
    bool scale_parameter = false;
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple_cat(
          Base::fields(),
          std::tuple{
              field("beta1", &C::beta1, "How much of the last update stays; 0 = no momentum and no state for it.",
                    kShare, record),
              field("decay_rate", &C::decay_rate,
                    "How fast the average of squares grows longer: at the update t, 1 - t^decay_rate of it stays.",
                    {.high = 0}, record),
              field("clip_threshold", &C::clip_threshold,
                    "Updates whose root mean square is above this are scaled down to it.", {}, record),
              field("eps", &C::eps,
                    "Added to squared gradients; least root mean square of a weight for scale_parameter.", at_least(0),
                    record),
              field("scale_parameter", &C::scale_parameter,
                    "Times the root mean square of the weight: the learning rate is relative.", record)});
    }
    void validate(Problems& problems) const {
      problems.require(beta1 < 1, "beta1", "got 1, expected less");
      problems.require(eps.size() == 2, "eps", fmt::format("got {} values, expected 2", eps.size()));
      problems.require(clip_threshold > 0, "clip_threshold", "expected above 0");
    }
  };
  using State = std::array<Tensor, kKinds.size()>;

  static State state(const Config& config, const OptimizedWeight& weight) {
    const Tensor& w = weight.master;
    const auto zeros = [&](const std::vector<std::int64_t>& shape) { return at::zeros(shape, w.options()); };
    State state;
    if (config.beta1 > 0) state[0] = zeros(w.sizes().vec());
    if (!is_matrix(w)) {
      state[1] = zeros(w.sizes().vec());
      return state;
    }
    std::vector<std::int64_t> rows = w.sizes().vec(), columns = rows;
    rows.pop_back();
    columns.erase(columns.end() - 2);
    state[2] = zeros(rows), state[3] = zeros(columns);
    return state;
  }

  static double rms(const Tensor& x) {
    return norm_of(x) / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, x.numel())));
  }

  static void update(const Config& config, OptimizedWeight& weight, Tensor gradient, State& state,
                     const WeightStep& step) {
    const double stays = 1 - std::pow(static_cast<double>(step.update), config.decay_rate);
    double rate = step.learning_rate;
    if (config.scale_parameter) rate *= std::max(config.eps[1], rms(weight.master));
    const Tensor squares = gradient.square().add_(config.eps[0]);
    if (state[1].defined()) {
      state[1].mul_(stays).add_(squares, 1 - stays);
      gradient.mul_(state[1].rsqrt());
    } else {
      state[2].mul_(stays).add_(squares.mean(-1), 1 - stays);
      state[3].mul_(stays).add_(squares.mean(-2), 1 - stays);
      gradient.mul_((state[2] / state[2].mean(-1, /*keepdim=*/true)).rsqrt_().unsqueeze(-1));
      gradient.mul_(state[3].unsqueeze(-2).rsqrt());
    }
    gradient.mul_(rate / std::max(1.0, rms(gradient) / config.clip_threshold));
    if (state[0].defined()) gradient = state[0].mul_(config.beta1).add_(gradient, 1 - config.beta1);
    weight.master.mul_(1 - step.weight_decay * rate).sub_(gradient);
  }
};

}  // namespace

void register_adafactor(Registries& hone) {
  hone.optimizers.add<PerWeight<Adafactor>>(
      "adafactor", "Second moments of a matrix from its rows and columns: hardly any memory for state.");
}

}  // namespace hone::optim
