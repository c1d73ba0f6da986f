// One training step: batches in, weights updated. What happens between steps is the trainer's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "hone/random.h"
#include "hone/recipe.h"
#include "hone/world.h"
#include "train/document_numbers.h"
#include "train/first_bad.h"
#include "train/frame.h"
#include "train/metrics.h"
#include "train/resources.h"
#include "train/step_plan.h"
#include "train/trainable.h"

namespace hone::training {

// An update that is about to be made.
struct PendingUpdate {
  const Group& group;
  const std::vector<double>& losses;  // of this rank's micro-batches, each its share of the step's mean
  const StepReport& report;           // of this update alone, over all ranks
  std::function<BadTensor()> first_bad;  // makes the passes once more to find it; on all ranks
};

// What happens around an update; what throws before it leaves the weights as they are.
struct UpdateHooks {
  std::function<bool(const PendingUpdate&)> before = [](const PendingUpdate&) { return true; };  // false: no update
  std::function<void()> after = [] {};
  // Whether `before` only looks for what is not finite: then a device goes on to the update meanwhile.
  std::function<bool()> only_checks = [] { return false; };
  std::function<bool(const std::string&)> wanted = {};  // which intermediates are logged; empty: none
};

// One run's, on one rank: of a step's micro-batches each size()th is this rank's. The recipe, the frame and the data
// set must outlive it; the frame has its optimizer and says how many steps there are.
class Stepper {
 public:
  Stepper(const Recipe& recipe, Frame& frame, const Loader::Options& loader, std::shared_ptr<const TrainingData> data,
          World world = {});
  UpdateHooks hooks = {};

  // The step after run.step of the frame; counts it, its updates and its tokens. `make`: instead of make().
  StepReport step(const std::function<StepReport(const Group&)>& make = {});
  // Within step(): what is done with its micro-batches; or, of one who makes updates otherwise, that there was one.
  StepReport make(Group group);
  void updated();
  void seek(const RunState& state) { loader_.seek(state.step, state.data_position); }
  bool has_data() { return loader_.has_next(); }  // waits for it; false: a stream has ended
  std::optional<double> epoch_at(std::int64_t step) const { return loader_.epoch_at(step); }
  // Numbers of documents that the objective wants before the first step; loads what models it has.
  void begin(const DocumentNumbers::Data& data);
  void complete(Batch* batch) const { numbers_.add_to(batch); }  // DocumentNumbers::add_to()
  const Objective& objective() const { return *objective_; }
  const RunResources& resources() const { return resources_; }
  const Optimizer& optimizer() const { return frame_.optimizer(); }
  Updater& updater() { return frame_.updater(); }

 private:
  StepReport update(const Group& group);
  void choose_trained();
  // How this rank goes through its micro-batches that learn: one pass for each, and none where others have one.
  struct Passes {
    std::vector<bool> learns;
    std::size_t count = 0;  // of the rank that has most
  };
  using SeedOf = std::function<std::uint64_t(std::size_t)>;  // of a micro-batch of this rank
  BadTensor first_bad(const Group& group, const Passes& passes, const SeedOf& seed_of);
  BadTensor first_bad_value(const Batch& batch, std::uint64_t seed) const;
  Sums amounts(const Group& group, Passes& passes, StepReport& report) const;
  // Of the rank's i-th micro-batch: its number in the step, from which its dropout follows.
  std::uint64_t number_of(std::size_t i) const {
    return i * static_cast<std::uint64_t>(world_.size()) + static_cast<std::uint64_t>(world_.rank());
  }
  // What a micro-batch leaves, on its device: nobody waits for it before the last one is done.
  struct Passed {
    Tensor loss;  // its share of the step's mean
    LossTerms terms;
    std::map<const Weight*, Tensor> observed;  // for buffers
  };
  Output forward(const Batch& batch, Pass& pass, std::uint64_t seed) const;
  Passed backward(const Batch& batch, const Sums& step_sums, std::uint64_t seed);
  // The same with labels that the model draws; `stream` names its draws.
  void backward_of_drawn(const Batch& batch, const Sums& step_sums, std::uint64_t seed, const std::string& stream);
  Tensor mean(const LossTerms& terms, const Sums& step_sums) const;
  void each_pass(const Passes& passes, const std::function<void(std::size_t)>& pass);
  // Of the model as it is now, where this update is one after which the optimizer wants it.
  void estimate_curvature(const Group& group, const Passes& passes, const Sums& step_sums, double labels);
  // The gradients' norm and the passes' losses. Where a device can, it goes on to the update while the host waits.
  std::vector<double> measure(const std::vector<Passed>& passed, const Sums& step_sums, StepReport& report);
  bool overflows(StepReport& report);
  Tensor norm_there();  // Updater::norm_there(); undefined also where the host has to see the gradients first
  void update_buffers(const std::vector<Passed>& passed);
  void measure_size(std::int64_t step, StepReport& report) const;  // where it is not the same in all steps
  Group next_group();
  void complete(Group& group) const;

  const Recipe& recipe_;
  Frame& frame_;
  Model& model_;
  World world_;
  std::unique_ptr<Objective> objective_;
  RunResources resources_;
  DocumentNumbers numbers_;
  const TrainedByStep trained_;
  const data::StepSizes sizes_;
  const std::function<std::int64_t(std::int64_t)> longest_;
  Loader loader_;
};

}  // namespace hone::training
