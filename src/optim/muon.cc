// Muon (Jordan et al., 2024): momentum whose direction is made orthogonal, with the arithmetic of torch.optim.Muon in
// the weight's own type; AdamW for what is no matrix between hidden states.
#include <algorithm>
#include <cmath>
#include <regex>

#include "config/patterns.h"
#include "optim/hidden.h"
#include "optim/per_weight.h"
#include "optim/rest.h"

namespace hone::optim {
enum class AdjustRate { original, match_rms_adamw };
}  // namespace hone::optim

// torch.optim's names.
template <>
inline constexpr auto hone::config::enum_names<hone::optim::AdjustRate> =
    std::to_array<std::pair<hone::optim::AdjustRate, std::string_view>>(
        {{hone::optim::AdjustRate::original, "original"},
         {hone::optim::AdjustRate::match_rms_adamw, "match_rms_adamw"}});

namespace hone::optim {
namespace {

struct MuonDefaults {
  static constexpr double learning_rate = 1e-3, weight_decay = 0.1;
  static constexpr bool decoupled = true;
};

struct MuonConfig : Rates<MuonDefaults> {
  using Base = Rates<MuonDefaults>;
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  std::vector<double> ns_coefficients{3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  AdjustRate adjust_lr = AdjustRate::original;
  std::string adamw_for = kHeads;
  Rest adamw;
  static constexpr auto fields() {
    using C = MuonConfig;
    constexpr OnResume record = OnResume::record;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("momentum", &C::momentum, "How much of the last direction stays.", kShare, record),
            field("nesterov", &C::nesterov, "Look ahead along the momentum.", record),
            field("ns_steps", &C::ns_steps, "Newton-Schulz iterations that make a direction orthogonal.",
                  {.low = 1, .high = 99}, record),
            field("ns_coefficients", &C::ns_coefficients, "Coefficients of those iterations.", {}, record),
            field("eps", &C::eps, "Least norm of a direction.", at_least(0), record),
            field("adjust_lr", &C::adjust_lr,
                  "By what the learning rate of an A x B matrix is multiplied: original = sqrt(max(1, A / B)), "
                  "match_rms_adamw = 0.2 sqrt(max(A, B)), so that AdamW's learning rates fit.",
                  record),
            field("adamw_for", &C::adamw_for,
                  "Regular expression of matrices that AdamW trains instead, besides embeddings.", OnResume::refuse),
            field("adamw", &C::adamw,
                  "AdamW for norms, biases, embeddings and what adamw_for names; its schedule is "
                  "the same.")});
  }
  void validate(Problems& problems) const {
    problems.require(ns_coefficients.size() == 3, "ns_coefficients",
                     fmt::format("got {} values, expected 3", ns_coefficients.size()));
    config::check_patterns({adamw_for}, "adamw_for", problems);
  }
};

// About the nearest matrix whose singular values are all one; of each of a stack.
Tensor orthogonal(const Tensor& direction, const MuonConfig& config) {
  const double a = config.ns_coefficients[0], b = config.ns_coefficients[1], c = config.ns_coefficients[2];
  Tensor x = direction.dim() == 2 ? direction.unsqueeze(0) : direction.flatten(0, -3);
  const bool tall = x.size(1) > x.size(2);
  if (tall) x = x.mT();
  x = x / at::linalg_vector_norm(x, 2, {1, 2}, /*keepdim=*/true).clamp_min(config.eps);
  for (std::int64_t i = 0; i < config.ns_steps; ++i) {
    const Tensor gram = at::bmm(x, x.mT());
    x = at::baddbmm(x, at::baddbmm(gram, gram, gram, b, c), x, a);
  }
  return (tall ? x.mT() : x).reshape(direction.sizes());
}

struct Orthogonal {
  static constexpr std::array kKinds{"momentum_buffer"};
  using Config = MuonConfig;
  using State = std::array<Tensor, kKinds.size()>;

  static State state(const Config&, const OptimizedWeight& weight) { return {at::zeros_like(weight.master)}; }

  static double adjusted(const Config& config, const OptimizedWeight& weight) {
    double out = static_cast<double>(weight.master.size(-2)), in = static_cast<double>(weight.master.size(-1));
    const WeightUse use = weight.weight ? weight.weight->use_as() : WeightUse::product;
    if (use == WeightUse::product_in_out || use == WeightUse::stack_in_out) std::swap(out, in);
    return config.adjust_lr == AdjustRate::original ? std::sqrt(std::max(1.0, out / in))
                                                    : 0.2 * std::sqrt(std::max(out, in));
  }

  static void update(const Config& config, OptimizedWeight& weight, const Tensor& gradient, State& state,
                     const WeightStep& step) {
    state[0].add_(gradient - state[0], 1 - config.momentum);
    const Tensor direction =
        orthogonal(config.nesterov ? gradient + (state[0] - gradient) * config.momentum : state[0], config);
    weight.master.mul_(1 - step.learning_rate * step.weight_decay)
        .sub_(direction, step.learning_rate * adjusted(config, weight));
  }
};

class Muon final : public Split {
 public:
  using Config = MuonConfig;
  explicit Muon(const Config& config)
      : Split(with_rest<PerWeight<Orthogonal>>("muon", config),
              [adamw_for = std::regex(config.adamw_for)](const OptimizedWeight& weight) {
                return is_hidden(weight, adamw_for) ? 0 : 1;
              }) {}
};

}  // namespace

void register_muon(Registries& hone) {
  hone.optimizers.add<Muon>("muon", "Orthogonal momentum for matrices, AdamW for the rest.");
}

}  // namespace hone::optim
