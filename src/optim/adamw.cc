// AdamW (arXiv:1711.05101), with the arithmetic of torch.optim.AdamW.
#include <ATen/ATen.h>

#include <cmath>

#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/optimizer.h"
#include "hone/registry.h"
#include "hone/schedule.h"
#include "ops/vectorised.h"
#include "optim/blocks.h"

namespace hone::optim {
namespace {

// What one update has in common for all elements.
struct AdamWStep {
  double keep = 1;  // 1 - learning rate * weight decay
  double beta1, beta2, eps;
  double step_size = 0;        // learning rate / (1 - beta1^t)
  double root_correction = 1;  // sqrt(1 - beta2^t)
  double gradient_scale = 1;
};

template <class T>
[[gnu::always_inline]] inline void adamw_loop(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v,
                                              std::int64_t size, const AdamWStep& s) {
  const T keep = T(s.keep), to_m = T(1 - s.beta1), beta2 = T(s.beta2), to_v = T(1 - s.beta2), eps = T(s.eps);
  const T size_of_step = T(s.step_size), correction = T(s.root_correction), scale = T(s.gradient_scale);
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) {
    const T gradient = g[i] * scale;
    m[i] = m[i] + to_m * (gradient - m[i]);
    v[i] = v[i] * beta2 + to_v * gradient * gradient;
    w[i] = w[i] * keep - size_of_step * (m[i] / (square_root(v[i]) / correction + eps));
  }
}

class AdamW final : public Optimizer {
 public:
  struct Config {
    double learning_rate = 3e-4;
    double weight_decay = 0.01;
    bool decay_all = false;
    std::vector<double> betas{0.9, 0.999};
    double eps = 1e-8;
    config::Choice<Schedule> schedule{"cosine", nullptr};
    static constexpr auto fields() {
      using C = Config;
      constexpr OnResume record = OnResume::record;
      return std::tuple{field("learning_rate", &C::learning_rate, "Peak learning rate.", at_least(0), record),
                        field("weight_decay", &C::weight_decay,
                              "Decoupled weight decay; norms and biases are left out.", at_least(0), record),
                        field("decay_all", &C::decay_all, "Let weight decay act on norms and biases too.", record),
                        field("betas", &C::betas, "How much of the old first and second moment stays.",
                              {.low = 0, .high = 1}, record),
                        field("eps", &C::eps, "Added to the root of the second moment.", at_least(0), record),
                        field("schedule", &C::schedule, "Learning rate over the run.", record)};
    }
    void validate(Problems& problems) const {
      problems.require(betas.size() == 2, "betas", fmt::format("got {} values, expected 2", betas.size()));
      for (const double beta : betas) problems.require(beta < 1, "betas", "got 1, expected less");
    }
  };
  explicit AdamW(const Config& config) : config_(config), schedule_(registries().schedules.make(config.schedule)) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights) {
      names_.push_back(weight.name);
      exp_avg_.push_back(at::zeros_like(weight.master));
      exp_avg_sq_.push_back(at::zeros_like(weight.master));
    }
  }

  void update(std::span<OptimizedWeight> weights, std::int64_t step, double learning_rate,
              double gradient_scale) override {
    const double t = static_cast<double>(step), beta1 = config_.betas[0], beta2 = config_.betas[1];
    const AdamWStep plain{1,
                          beta1,
                          beta2,
                          config_.eps,
                          learning_rate / (1 - std::pow(beta1, t)),
                          std::sqrt(1 - std::pow(beta2, t)),
                          gradient_scale};
    const auto values_for = [&](const OptimizedWeight& weight) {
      AdamWStep values = plain;
      if (weight.decays || config_.decay_all) values.keep = 1 - learning_rate * config_.weight_decay;
      return values;
    };
    update_blocks(
        weights,
        [&](const OptimizedWeight& weight, const Block& block) {
          if (weight.master.scalar_type() == at::kDouble)
            run<double>(weight, block, values_for(weight));
          else
            run<float>(weight, block, values_for(weight));
        },
        [&](const OptimizedWeight& weight) { run_plain(weight, values_for(weight)); });
  }

  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      visit("exp_avg." + names_[i], exp_avg_[i]);
      visit("exp_avg_sq." + names_[i], exp_avg_sq_[i]);
    }
  }

  bool is_elementwise() const override { return true; }
  double learning_rate(std::int64_t step, std::int64_t steps) const override {
    return config_.learning_rate * schedule_->factor(step, steps);
  }
  void check(std::int64_t steps, Problems& problems) const override {
    const Problems::Scope below(problems, "schedule.");
    schedule_->check(steps, problems);
  }

 private:
  template <class T>
  void run(const OptimizedWeight& weight, const Block& block, const AdamWStep& values) {
    T* w = weight.master.mutable_data_ptr<T>() + block.begin;
    const T* g = weight.gradient.const_data_ptr<T>() + block.begin;
    T* m = exp_avg_[weight.index].mutable_data_ptr<T>() + block.begin;
    T* v = exp_avg_sq_[weight.index].mutable_data_ptr<T>() + block.begin;
    ops::vectorised([&] { adamw_loop(w, g, m, v, block.end - block.begin, values); });
  }

  void run_plain(const OptimizedWeight& weight, const AdamWStep& values) {
    const Tensor gradient = weight.gradient * values.gradient_scale;
    exp_avg_[weight.index].add_(gradient - exp_avg_[weight.index], 1 - values.beta1);
    exp_avg_sq_[weight.index].mul_(values.beta2).addcmul_(gradient, gradient, 1 - values.beta2);
    const Tensor root = exp_avg_sq_[weight.index].sqrt().div_(values.root_correction).add_(values.eps);
    weight.master.mul_(values.keep).addcdiv_(exp_avg_[weight.index], root, -values.step_size);
  }

  Config config_;
  std::unique_ptr<Schedule> schedule_;
  std::vector<std::string> names_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
};

}  // namespace

void register_adamw(Registries& hone) { hone.optimizers.add<AdamW>("adamw", "Adam with decoupled weight decay."); }

}  // namespace hone::optim
