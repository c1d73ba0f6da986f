// Weights that are divided among several optimizers.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hone/optimizer.h"

namespace hone::optim {

class Split : public Optimizer {
 public:
  struct Part {
    std::string name;
    std::unique_ptr<Optimizer> optimizer;
  };
  // which(weight): the index of its part. The first part is the main one.
  using Which = std::function<std::size_t(const OptimizedWeight&)>;
  Split(std::vector<Part> parts, Which which);

  void attach(std::span<OptimizedWeight> weights) override;
  void begin_update(std::span<OptimizedWeight> weights, const UpdateStep& step) override;
  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override;
  void each_state(const std::function<void(const std::string&, Tensor&)>& visit) override;
  std::int64_t curvature_every() const override;
  void take_curvature(std::span<OptimizedWeight> weights, double labels) override;
  bool averages() const override;
  Tensor average(const OptimizedWeight& weight) const override;
  Tensor average_source(const OptimizedWeight& weight) override;
  double learning_rate(std::int64_t step, std::int64_t steps) const override;
  std::vector<std::pair<std::string, const Optimizer*>> parts() const override;
  bool takes_scale_there() const override;
  std::string part_of(const OptimizedWeight& weight) const override { return parts_[places_[weight.index].part].name; }
  double weight_decay(const OptimizedWeight& weight) const override;
  void check(std::int64_t steps, Problems& problems) const override;

 private:
  void each(std::span<OptimizedWeight> weights,
            const std::function<void(Optimizer&, std::span<OptimizedWeight>)>& work);
  std::vector<Part> parts_;
  const Which which_;
  struct Place {
    std::size_t part = 0, index = 0;  // among the part's
  };
  std::vector<Place> places_;    // of the weights, by their index
  std::set<std::string> names_;  // of the weights
};

}  // namespace hone::optim
