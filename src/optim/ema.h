// An exponential moving average of the weights beside any optimizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hone/optimizer.h"

namespace hone::optim {

// The average moves 1 - decay of the way to the weights after each update; warmup: in the update t at least
// 9 / (10 + t) of it, so that it forgets where it began.
class Ema final : public Optimizer {
 public:
  Ema(std::unique_ptr<Optimizer> of, double decay, bool warmup);

  void attach(std::span<OptimizedWeight> weights) override;
  void begin_update(std::span<OptimizedWeight> weights, const UpdateStep& step) override;
  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override;
  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override;
  double learning_rate(std::int64_t step, std::int64_t steps) const override;
  bool averages() const override { return true; }
  Tensor average(const OptimizedWeight& weight) const override { return averages_[weight.index]; }
  Tensor average_source(const OptimizedWeight& weight) override { return averages_[weight.index]; }
  std::int64_t curvature_every() const override { return of_->curvature_every(); }
  void take_curvature(std::span<OptimizedWeight> weights, double labels) override;
  std::vector<std::pair<std::string, const Optimizer*>> parts() const override { return of_->parts(); }
  std::string part_of(const OptimizedWeight& weight) const override { return of_->part_of(weight); }
  double weight_decay(const OptimizedWeight& weight) const override { return of_->weight_decay(weight); }
  bool is_elementwise() const override { return of_->is_elementwise(); }
  void check(std::int64_t steps, Problems& problems) const override { of_->check(steps, problems); }

 private:
  const std::unique_ptr<Optimizer> of_;
  const double decay_;
  const bool warmup_;
  std::vector<std::string> names_;
  std::vector<Tensor> averages_;  // of the weights, by their index
};

}  // namespace hone::optim
