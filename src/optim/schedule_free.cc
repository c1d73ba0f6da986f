// AdamW without a schedule (Defazio et al., 2024, arXiv:2405.15682), with the arithmetic of the authors' code.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "ops/vectorised.h"
#include "optim/blocks.h"
#include "optim/frame.h"

namespace hone::optim {
namespace {

struct ScheduleFreeDefaults {
  static constexpr double learning_rate = 2.5e-3, weight_decay = 0;
  static constexpr bool decoupled = true;
  static constexpr const char* schedule = "constant";
};

struct ScheduleFreeConfig : Rates<ScheduleFreeDefaults> {
  using Base = Rates<ScheduleFreeDefaults>;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8, r = 0, weight_lr_power = 2;
  static constexpr auto fields() {
    using C = ScheduleFreeConfig;
    constexpr OnResume record = OnResume::record;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("betas", &C::betas,
                         "How much of the average, against the fastest weights, is in those that are trained; how much "
                         "of the old second moment stays.",
                         kShare, OnResume::refuse),
                   field("eps", &C::eps, kEpsDoc, at_least(0), record),
                   field("r", &C::r, "The step t counts as t^r in the average.", at_least(0), record),
                   field("weight_lr_power", &C::weight_lr_power,
                         "A step counts as this power of the largest learning rate so far in the average.", at_least(0),
                         record)});
  }
  void validate(Problems& problems) const {
    check_betas(betas, 2, problems);
    problems.require(!betas.empty() && betas[0] > 0, "betas", "the first: got 0, expected more");
  }
};

struct Values {
  double learning_rate, beta2, eps, root_correction;
  double to_z;   // how far the trained weights go towards the fastest
  double along;  // how far they go along the gradient: -learning rate * (1 - beta1 (1 - to_z))
};

template <class T>
[[gnu::always_inline]] inline void loop(T* __restrict y, const T* __restrict g, T* __restrict v, T* __restrict z,
                                        std::int64_t size, const Values& s, double gradient_scale, double decay) {
  const T rate = T(s.learning_rate), beta2 = T(s.beta2), to_v = T(1 - s.beta2), eps = T(s.eps), to_z = T(s.to_z);
  const T along = T(s.along), correction = T(s.root_correction), scale = T(gradient_scale), share = T(decay);
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const T gradient = g[i] * scale;
    v[i] = v[i] * beta2 + to_v * gradient * gradient;
    const T change = gradient / (square_root(v[i]) / correction + eps) + share * y[i];
    y[i] = y[i] + to_z * (z[i] - y[i]) + along * change;
    z[i] = z[i] - rate * change;
  }
}

// Trained are weights between an average x and z, which is as fast as AdamW: y = beta1 x + (1 - beta1) z.
class ScheduleFree final : public Frame<ScheduleFreeConfig, 3> {
 public:
  using Config = ScheduleFreeConfig;
  explicit ScheduleFree(const Config& config) : Frame(config, {"exp_avg_sq", "z", "schedule_free"}) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights)
      add(weight) = {at::zeros_like(weight.master), weight.master.clone(), at::zeros({2}, at::kDouble)};
    to_z_.resize(states_.size());
  }

  void begin_update(std::span<OptimizedWeight>, const UpdateStep& step) override { rate_ = rate(step); }

  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override {
    const double rate = this->rate(step), beta1 = config_.betas[0], beta2 = config_.betas[1];
    const double correction = std::sqrt(1 - std::pow(beta2, static_cast<double>(step.update)));
    for (const OptimizedWeight& weight : weights) to_z_[weight.index] = count(weight, step);
    const auto values_of = [&](const OptimizedWeight& weight) {
      const double to_z = to_z_[weight.index];
      return Values{rate, beta2, config_.eps, correction, to_z, rate * (beta1 * (1 - to_z) - 1)};
    };
    update_blocks(
        weights,
        [&](const OptimizedWeight& weight, const Block& block) {
          if (weight.master.scalar_type() == at::kDouble)
            run<double>(weight, block, values_of(weight), step.gradient_scale);
          else
            run<float>(weight, block, values_of(weight), step.gradient_scale);
        },
        [&](const OptimizedWeight& weight) {
          run_plain(weight, values_of(weight), step.gradient_scale);
          write_rounded(weight);
        });
  }

  bool averages() const override { return true; }
  Tensor average(const OptimizedWeight& weight) const override {
    return weight.master.lerp(states_[weight.index][1], 1 - 1 / config_.betas[0]);
  }

  Tensor average_source(const OptimizedWeight& weight) override { return states_[weight.index][1]; }

 private:
  // What is frozen in this step has no update in it (model.trainable), and then its average begins with its first one;
  // what only has no gradient, such as an expert that no token came to, has one.
  static bool is_frozen(const OptimizedWeight& weight) {
    return !weight.gradient.defined() && weight.weight && !weight.weight->value().requires_grad();
  }
  // The share of this update in all that are in the weight's average.
  double count(const OptimizedWeight& weight, const UpdateStep& step) {
    if (is_frozen(weight)) return 0;
    double* sums = states_[weight.index][2].mutable_data_ptr<double>();
    sums[kLargest] = std::max(sums[kLargest], rate_);
    const double counts =
        std::pow(static_cast<double>(step.update), config_.r) * std::pow(sums[kLargest], config_.weight_lr_power);
    sums[kAll] += counts;
    return sums[kAll] > 0 ? counts / sums[kAll] : 0;
  }

  template <class T>
  void run(const OptimizedWeight& weight, const Block& block, const Values& values, double gradient_scale) {
    const State& state = states_[weight.index];
    T *y = weight.master.mutable_data_ptr<T>(), *v = state[0].mutable_data_ptr<T>(),
      *z = state[1].mutable_data_ptr<T>();
    const T* g = weight.gradient.const_data_ptr<T>();
    const double decay = decay_of(weight);
    ops::vectorised([&] {
      loop(y + block.begin, g + block.begin, v + block.begin, z + block.begin, block.end - block.begin, values,
           gradient_scale, decay);
    });
  }

  void run_plain(const OptimizedWeight& weight, const Values& s, double gradient_scale) {
    State& state = states_[weight.index];
    Tensor y = weight.master;
    const Tensor gradient = weight.gradient * gradient_scale;
    state[0].mul_(s.beta2).addcmul_(gradient, gradient, 1 - s.beta2);
    const Tensor change = gradient / state[0].sqrt().div_(s.root_correction).add_(s.eps) + y * decay_of(weight);
    y.lerp_(state[1], s.to_z).add_(change, s.along);
    state[1].sub_(change, s.learning_rate);
  }

  static constexpr int kAll = 0, kLargest = 1;  // of the third state: what is in the average, the largest learning rate
  std::vector<double> to_z_;                    // in this update, of the weights by their index
  double rate_ = 0;                             // of this update, without a weight's own factor
};

}  // namespace

void register_schedule_free(Registries& hone) {
  hone.optimizers.add<ScheduleFree>("adamw_schedule_free",
                                    "AdamW that averages its weights instead of letting the learning rate fall.");
}

}  // namespace hone::optim
