// What callbacks see of the optimizer: how it updates each group of weights.
#pragma once

#include "hone/callback.h"
#include "hone/optimizer.h"
#include "hone/recipe.h"
#include "train/state.h"

namespace hone::training {

// All of it must outlive it. Groups are the parts of an optimizer that has parts; of weights whose learning rate is
// scaled there is one for each scale, "<group>x16".
class OptimizerRates final : public RunOptimizer {
 public:
  OptimizerRates(const Optimizer& optimizer, const Recipe& recipe, Model& model, const RunState& state,
                 std::int64_t steps);
  std::vector<OptimizerGroup> groups() const override;

 private:
  struct Part {
    std::string name;
    const Optimizer* optimizer;
    Metrics constants;
  };
  const RunState& state_;
  std::int64_t steps_;
  std::vector<Part> parts_;
  std::vector<double> scales_;  // of trained weights' learning rates, in order
};

}  // namespace hone::training
