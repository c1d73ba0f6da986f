// Prodigy (Mishchenko and Defazio, 2023, arXiv:2306.06101): AdamW that finds its learning rate, with the arithmetic of
// the authors' code.
#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "optim/frame.h"
#include "tensor/host.h"

namespace hone::optim {
namespace {

struct ProdigyDefaults {
  static constexpr double learning_rate = 1.0, weight_decay = 0;
  static constexpr bool decoupled = true;
};

struct ProdigyConfig : Rates<ProdigyDefaults> {
  using Base = Rates<ProdigyDefaults>;
  std::vector<double> betas{0.9, 0.999};
  std::optional<double> beta3;
  double eps = 1e-8, d0 = 1e-6, d_coef = 1.0;
  std::optional<double> growth_rate;
  bool use_bias_correction = false, safeguard_warmup = false;
  static constexpr auto fields() {
    using C = ProdigyConfig;
    constexpr OnResume record = OnResume::record;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("betas", &C::betas, kBetasDoc, kShare, record),
            field("beta3", &C::beta3,
                  "How much of the sums stays by which the step size is found; default: the root "
                  "of the second beta.",
                  kShare, record),
            field("eps", &C::eps, kEpsDoc, at_least(0), record),
            field("d0", &C::d0, "First guess of the step size.", at_least(0), record),
            field("d_coef", &C::d_coef, "Times the step size that is found; 0.5 or 2 where it is too long or short.",
                  at_least(0), record),
            field("growth_rate", &C::growth_rate, "By what the step size grows in a step at most; default: no limit.",
                  at_least(1), record),
            field("use_bias_correction", &C::use_bias_correction, "Correct the moments' bias as Adam does.", record),
            field("safeguard_warmup", &C::safeguard_warmup,
                  "Leave the learning rate out of the sums: for schedules with a long warm-up.", record)});
  }
  void validate(Problems& problems) const {
    check_betas(betas, 2, problems);
    problems.require(d0 > 0, "d0", "expected above 0");
  }
};

class Prodigy final : public Frame<ProdigyConfig, 4> {
 public:
  using Config = ProdigyConfig;
  explicit Prodigy(const Config& config) : Frame(config, {"exp_avg", "exp_avg_sq", "s", "p0"}) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights) {
      const Tensor& w = weight.master;
      add(weight) = {at::zeros_like(w), at::zeros_like(w), at::zeros_like(w), w.clone()};
    }
    found_ = at::tensor({config_.d0, config_.d0, 0.0}, at::kDouble);
  }

  // How far the weights came against how strongly they were pulled: of all weights together.
  void begin_update(std::span<OptimizedWeight> weights, const UpdateStep& step) override {
    const double t = static_cast<double>(step.update), beta1 = config_.betas[0], beta2 = config_.betas[1];
    const double beta3 = config_.beta3.value_or(std::sqrt(beta2)), rate = this->rate(step);
    double d = found_[kD].item<double>();
    const double most = found_[kMost].item<double>();
    const double correction =
        config_.use_bias_correction ? std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)) : 1.0;
    step_ = {d, d * correction};
    double came = found_[kCame].item<double>() * beta3, pulled = 0;
    const double share = d / config_.d0, length = step_.times * rate;
    std::vector<Tensor> sums;  // of each weight: how far it came, how strongly it is pulled
    for (OptimizedWeight& weight : weights) {
      if (!weight.gradient.defined() || rate == 0) continue;
      const Tensor gradient = weight.gradient * step.gradient_scale;
      auto& [exp_avg, exp_avg_sq, s, p0] = states_[weight.index];
      sums.push_back((gradient * (p0 - weight.master)).sum(at::kDouble));
      exp_avg.mul_(beta1).add_(gradient, d * (1 - beta1));
      exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, d * d * (1 - beta2));
      s.mul_(beta3).add_(gradient, share * (config_.safeguard_warmup ? d : length));
      sums.push_back(s.abs().sum(at::kDouble));
    }
    const std::vector<double> numbers = host::numbers(sums);
    for (std::size_t i = 0; i < numbers.size(); i += 2) came += share * length * numbers[i], pulled += numbers[i + 1];
    if (pulled == 0) {
      step_.times = 0;
      return;
    }
    const double guess = config_.d_coef * came / pulled, largest = std::max(most, guess);
    if (d == config_.d0) d = std::max(d, guess);
    d = config_.growth_rate ? std::min(largest, d * *config_.growth_rate) : largest;
    step_.d = d;
    found_[kD] = d, found_[kMost] = largest, found_[kCame] = came;
  }

  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override {
    const double length = step_.times * rate(step);
    for (OptimizedWeight& weight : weights) {
      if (!weight.gradient.defined() || length == 0) continue;
      const State& state = states_[weight.index];
      const Tensor root = state[1].sqrt().add_(step_.d * config_.eps);
      weight.master.mul_(1 - decay_of(weight) * length).addcdiv_(state[0], root, -length);
      if (weight.rounded.defined()) weight.rounded.copy_(weight.master);
    }
  }

  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override {
    Frame::each_state(visit);
    visit("prodigy", found_);
  }

 private:
  static constexpr int kD = 0, kMost = 1, kCame = 2;
  Tensor found_;  // the step size, the largest that was guessed, and how far the weights came
  struct {
    double d = 0, times = 0;  // of this update: the step size in front of eps; by what the learning rate is multiplied
  } step_;
};

}  // namespace

void register_prodigy(Registries& hone) {
  hone.optimizers.add<Prodigy>("prodigy", "AdamW that finds its learning rate: learning_rate stays 1.");
}

}  // namespace hone::optim
