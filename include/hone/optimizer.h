// Optimizers: one update of all weights per step, fp32 state, flat and deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/config.h"
#include "hone/module.h"

namespace hone {

// A weight as the optimizer sees it: its name, the fp32 master (the weight itself in an fp32 run) and its summed
// gradient.
struct OptimizedWeight {
  std::string name;
  Weight* weight = nullptr;
  Tensor master;    // fp32 (fp64 in an fp64 run)
  Tensor gradient;  // same dtype as master; summed over the step's micro-batches
  Tensor rounded;   // the bf16 weight of a bf16 run; undefined: the master is the weight
  bool decays = true;
  std::size_t index = 0;  // among all that were attached: where the optimizer finds its state
};

// Plug-in (src/optim). The trainer owns masters and gradients; an optimizer owns its moments.
class HONE_API Optimizer {
 public:
  static constexpr std::string_view kInterface = "optimizer";
  virtual ~Optimizer() = default;
  virtual void attach(std::span<OptimizedWeight> weights) = 0;  // all of them; allocates the state, zero
  // Updates masters in place, and writes them to `rounded` where there is one. `step` counts from 1; gradient_scale
  // multiplies every gradient (clipping). Called several times a step, each time with some of the attached weights:
  // those of one block, or those outside of blocks.
  virtual void update(std::span<OptimizedWeight> weights, std::int64_t step, double learning_rate,
                      double gradient_scale) = 0;
  // Every state tensor with a name such as "exp_avg.model.norm.weight", to be saved and restored.
  virtual void each_state(const std::function<void(const std::string&, Tensor&)>& visit) = 0;
  // Learning rate of the update number `step`, counted from 0, of `steps` in all; a function of the step alone.
  virtual double learning_rate(std::int64_t step, std::int64_t steps) const = 0;
  // Whether an element's update depends on no other element: then ranks may share out a weight (parallel.fsdp). Its
  // state is then one tensor of the weight's shape and type for each of its kinds.
  virtual bool is_elementwise() const { return false; }
  virtual void check(std::int64_t /*steps*/, Problems&) const {}  // what does not fit a run of so many
};

}  // namespace hone
