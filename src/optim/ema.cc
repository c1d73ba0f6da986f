// An exponential moving average of the weights beside any optimizer.
#include "optim/ema.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace hone::optim {

Ema::Ema(std::unique_ptr<Optimizer> of, double decay, bool warmup)
    : of_(std::move(of)), decay_(decay), warmup_(warmup) {}

void Ema::attach(std::span<OptimizedWeight> weights) {
  of_->attach(weights);
  for (const OptimizedWeight& weight : weights) {
    names_.push_back(weight.name);
    averages_.push_back(weight.master.clone());
  }
}

void Ema::begin_update(std::span<OptimizedWeight> weights, const UpdateStep& step) { of_->begin_update(weights, step); }

void Ema::update(std::span<OptimizedWeight> weights, const UpdateStep& step) {
  of_->update(weights, step);
  const double t = static_cast<double>(step.update), decay = warmup_ ? std::min(decay_, (1 + t) / (10 + t)) : decay_;
  for (const OptimizedWeight& weight : weights) averages_[weight.index].lerp_(weight.master, 1 - decay);
}

void Ema::take_curvature(std::span<OptimizedWeight> weights, double labels) { of_->take_curvature(weights, labels); }

void Ema::each_state(const std::function<void(const std::string&, Tensor&)>& visit) {
  of_->each_state(visit);
  for (std::size_t i = 0; i < names_.size(); ++i) visit("ema." + names_[i], averages_[i]);
}

double Ema::learning_rate(std::int64_t step, std::int64_t steps) const { return of_->learning_rate(step, steps); }

}  // namespace hone::optim
