// Optimizers: one update of all weights per step, fp32 state, flat and deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  Tensor rounded;   // the bf16 or fp16 weight of such a run; undefined: the master is the weight
  bool decays = true;
  std::size_t index = 0;  // among all that were attached: where the optimizer finds its state
};

// Which update it is, and what it has in common for all weights that are updated together.
struct UpdateStep {
  std::int64_t update = 1;           // of the run, counted from 1
  std::int64_t step = 0, steps = 1;  // of the run, as learning_rate() takes them
  double learning_rate_scale = 1;    // times the learning rate
  double gradient_scale = 1;         // times every gradient (clipping)
  // Where takes_scale_there(): the same as a scalar of fp64 on the weights' device, which the host has not seen; not a
  // number: nothing may change. gradient_scale is 1 then. Undefined: there is none.
  Tensor scale_there = {};
};

// Plug-in (src/optim). The trainer owns masters and gradients; an optimizer owns its moments.
class HONE_API Optimizer {
 public:
  static constexpr std::string_view kInterface = "optimizer";
  virtual ~Optimizer() = default;
  virtual void attach(std::span<OptimizedWeight> weights) = 0;  // all of them; allocates the state, zero
  // Before the update() calls of a step, with all weights: for what depends on more than the weights of one call. Their
  // learning rates may differ: step.learning_rate_scale is 1.
  virtual void begin_update(std::span<OptimizedWeight> /*weights*/, const UpdateStep& /*step*/) {}
  // Updates masters in place, and writes them to `rounded` where there is one. Called several times a step, each time
  // with some of the attached weights: those of one block, or those outside of blocks.
  virtual void update(std::span<OptimizedWeight> weights, const UpdateStep& step) = 0;
  // Every state tensor with a name such as "exp_avg.model.norm.weight", to be saved and restored.
  virtual void each_state(const std::function<void(const std::string&, Tensor&)>& visit) = 0;
  // Learning rate of the update number `step`, counted from 0, of `steps` in all; a function of the step alone.
  virtual double learning_rate(std::int64_t step, std::int64_t steps) const = 0;
  // Whether what is evaluated, generated with and saved as the model is not what is trained, but an average of it, and
  // that average of a weight, as a tensor of its own; undefined: the weight itself.
  virtual bool averages() const { return false; }
  virtual Tensor average(const OptimizedWeight& /*weight*/) const { return {}; }
  // What has to be changed with a weight so that its average changes alike: the average, or what it is made of with the
  // weight itself; undefined: nothing.
  virtual Tensor average_source(const OptimizedWeight& /*weight*/) { return {}; }
  // Updates between two estimates of the curvature; 0: none is needed. After such an update all weights come with the
  // gradient of the mean loss of `labels` labels that the model itself has drawn.
  virtual std::int64_t curvature_every() const { return 0; }
  virtual void take_curvature(std::span<OptimizedWeight> /*weights*/, double /*labels*/) {}
  // Those that it consists of, by names of their own, where there are several: each has its learning rate.
  virtual std::vector<std::pair<std::string, const Optimizer*>> parts() const { return {}; }
  // For tables of weights, of one that is attached: the part that updates it, where there are several; the weight decay
  // that it gets.
  virtual std::string part_of(const OptimizedWeight& /*weight*/) const { return ""; }
  virtual double weight_decay(const OptimizedWeight& /*weight*/) const { return 0; }
  // Whether an element's update depends on no other element: then ranks may share out a weight (parallel.fsdp). Its
  // state is then one tensor of the weight's shape and type for each of its kinds.
  virtual bool is_elementwise() const { return false; }
  // Whether update() knows UpdateStep::scale_there. Then a device's update need not wait until the host has seen the
  // gradients' norm.
  virtual bool takes_scale_there() const { return false; }
  virtual void check(std::int64_t /*steps*/, Problems&) const {}  // what does not fit a run of so many
};

}  // namespace hone
