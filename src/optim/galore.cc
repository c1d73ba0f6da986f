// GaLore (Zhao et al., 2024, arXiv:2403.03507): AdamW whose moments are of a gradient's largest singular directions,
// with the arithmetic of galore-torch.
#include <array>
#include <cmath>

#include "optim/low_rank.h"

namespace hone::optim {
namespace {

struct GaLoreDefaults {
  static constexpr std::int64_t rank = 128;
  static constexpr double scale = 0.25;
  static constexpr const char* kScaleDoc = "By what updates are multiplied that come back from the directions.";
};

struct GaLore {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq", "directions"};
  using Config = LowRankConfig<GaLoreDefaults>;
  using State = std::array<Tensor, kKinds.size()>;

  static State state(const Config& config, const OptimizedWeight& weight) {
    const Tensor& w = weight.master;
    const Sides sides = sides_of(w, config.rank);
    const auto zeros = [&](const std::vector<std::int64_t>& shape) { return at::zeros(shape, w.options()); };
    const auto moments = shape_of_projection(w, sides);
    return {zeros(moments), zeros(moments), zeros(shape_of_directions(w, sides))};
  }

  // Of the side that is the shorter one.
  static Tensor directions(const Tensor& gradient, const Sides& sides) {
    const auto [u, s, v] = at::linalg_svd(gradient, /*full_matrices=*/false);
    return sides.tall() ? v.narrow(-2, 0, sides.rank) : u.narrow(-1, 0, sides.rank);
  }

  static void update(const Config& config, OptimizedWeight& weight, const Tensor& gradient, State& state,
                     const WeightStep& step) {
    const Sides sides = sides_of(weight.master, config.rank);
    if (wants_directions(state[2], config.update_proj_gap, step)) state[2].copy_(directions(gradient, sides));
    const auto made =
        moments_step(projected(gradient, state[2], sides), state[0], state[1], config.betas, config.eps, step);
    const Tensor whole = sides.tall() ? at::matmul(made.direction, state[2]) : at::matmul(state[2], made.direction);
    weight.master.sub_(whole, made.step_size * config.scale).mul_(1 - step.learning_rate * step.weight_decay);
  }
};

class GaLoreAdamW final : public Split {
 public:
  using Config = GaLore::Config;
  explicit GaLoreAdamW(const Config& config)
      : Split(with_rest<PerWeight<GaLore>>("galore", config),
              [adamw_for = std::regex(config.adamw_for)](const OptimizedWeight& weight) {
                return is_hidden(weight, adamw_for) ? 0 : 1;
              }) {}
};

}  // namespace

void register_galore(Registries& hone) {
  hone.optimizers.add<GaLoreAdamW>("galore_adamw",
                                   "AdamW in the largest singular directions of matrices' gradients, AdamW for the "
                                   "rest: a fraction of the memory for state.");
}

}  // namespace hone::optim
