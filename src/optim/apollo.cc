// APOLLO (Zhu et al., 2024, arXiv:2412.05270): gradients scaled as Adam would scale their random projection, with the
// arithmetic of apollo-torch.
#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <cmath>
#include <limits>

#include "optim/low_rank.h"

namespace hone::optim {
enum class ScaleOf { channel, tensor };
}  // namespace hone::optim

// apollo-torch's names.
template <>
inline constexpr auto hone::config::enum_names<hone::optim::ScaleOf> =
    std::to_array<std::pair<hone::optim::ScaleOf, std::string_view>>({{hone::optim::ScaleOf::channel, "channel"},
                                                                      {hone::optim::ScaleOf::tensor, "tensor"}});

namespace hone::optim {
namespace {

struct ApolloDefaults {
  static constexpr std::int64_t rank = 256;
  static constexpr double scale = 1;
  static constexpr const char* kScaleDoc = "Of updates, its root; of rank 1 and scale_type tensor 128 is usual.";
};

struct ApolloConfig : LowRankConfig<ApolloDefaults> {
  using Base = LowRankConfig<ApolloDefaults>;
  ScaleOf scale_type = ScaleOf::channel;
  static constexpr auto fields() {
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("scale_type", &ApolloConfig::scale_type,
                         "What has a scale of its own: each row (or column) of the longer side, or the matrix.",
                         OnResume::record)});
  }
};

struct Apollo {
  static constexpr std::array kKinds{"exp_avg", "exp_avg_sq", "directions", "last_norm"};
  using Config = ApolloConfig;
  using State = std::array<Tensor, kKinds.size()>;
  static constexpr double kGrowth = 1.01, kTiny = 1e-8;  // an update's norm grows by this at most (Fira)

  static State state(const Config& config, const OptimizedWeight& weight) {
    const Tensor& w = weight.master;
    const Sides sides = sides_of(w, config.rank);
    const auto zeros = [&](const std::vector<std::int64_t>& shape) { return at::zeros(shape, w.options()); };
    const auto moments = shape_of_projection(w, sides);
    const std::vector<std::int64_t> outer(moments.begin(), moments.end() - 2);
    return {zeros(moments), zeros(moments), zeros(shape_of_directions(w, sides)), zeros(outer)};
  }

  // Random ones, of the weight's number and how often they were chosen: apollo-torch's chain of seeds.
  static Tensor directions(const Tensor& like, std::size_t index, std::int64_t chosen, double rank) {
    constexpr std::int64_t kAhead = 15;
    std::uint64_t seed = index + 1;
    for (std::int64_t i = 0; i < chosen; ++i)
      seed = static_cast<std::uint64_t>(host::values<std::int64_t>(
          at::randint(0, std::numeric_limits<std::int64_t>::max(), {kAhead}, at::detail::createCPUGenerator(seed),
                      at::TensorOptions().dtype(at::kLong)))[kAhead - 1]);
    const at::TensorOptions options = at::TensorOptions().dtype(like.scalar_type());
    return at::randn(like.sizes(), at::detail::createCPUGenerator(seed), options) / std::sqrt(rank);
  }

  static void update(const Config& config, OptimizedWeight& weight, const Tensor& gradient, State& state,
                     const WeightStep& step) {
    const Sides sides = sides_of(weight.master, config.rank);
    if (wants_directions(state[2], config.update_proj_gap, step)) {
      const std::int64_t chosen = (step.update - 1) / config.update_proj_gap;
      state[2].copy_(directions(state[2], weight.index, chosen, static_cast<double>(sides.rank)));
    }
    const Tensor small = projected(gradient, state[2], sides);
    const auto made = moments_step(small, state[0], state[1], config.betas, config.eps, step);
    const std::vector<std::int64_t> over = config.scale_type == ScaleOf::tensor ? std::vector<std::int64_t>{-2, -1}
                                           : sides.tall()                       ? std::vector<std::int64_t>{-1}
                                                                                : std::vector<std::int64_t>{-2};
    const auto norm = [&](const Tensor& x, const std::vector<std::int64_t>& dims) {
      return at::linalg_vector_norm(x, 2, dims, /*keepdim=*/true);
    };
    Tensor scaled = gradient * (norm(made.direction, over) / (norm(small, over) + kTiny));
    limit(scaled, state[3]);
    weight.master.sub_(scaled, made.step_size * std::sqrt(config.scale))
        .mul_(1 - step.learning_rate * step.weight_decay);
  }

  // So that none is far longer than the last one, where there is one.
  static void limit(Tensor& scaled, Tensor& last) {
    const Tensor now = at::linalg_vector_norm(scaled, 2, {-2, -1});
    const Tensor grown = (now / (last + kTiny)).clamp_min(kGrowth) / kGrowth;
    const Tensor limiter = at::where(last == 0, at::ones_like(grown), grown);
    scaled.div_(limiter.unsqueeze(-1).unsqueeze(-1));
    last.copy_(now / limiter);
  }
};

class ApolloAdamW final : public Split {
 public:
  using Config = ApolloConfig;
  explicit ApolloAdamW(const Config& config)
      : Split(with_rest<PerWeight<Apollo>>("apollo", config),
              [adamw_for = std::regex(config.adamw_for)](const OptimizedWeight& weight) {
                return is_hidden(weight, adamw_for) ? 0 : 1;
              }) {}
};

}  // namespace

void register_apollo(Registries& hone) {
  hone.optimizers.add<ApolloAdamW>("apollo",
                                   "Gradients of matrices scaled as AdamW would scale a random projection of them, "
                                   "AdamW for the rest: hardly any memory for state.");
}

}  // namespace hone::optim
