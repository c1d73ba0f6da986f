// One training step: batches in, weights updated. What happens between steps is the trainer's.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/plugin.h"
#include "hone/objective.h"
#include "hone/random.h"
#include "hone/recipe.h"
#include "hone/world.h"
#include "tensor/host.h"
#include "train/context.h"
#include "train/document_numbers.h"
#include "train/first_bad.h"
#include "train/frame.h"
#include "train/metrics.h"
#include "train/passed.h"
#include "train/recorded_passes.h"
#include "train/resources.h"
#include "train/rounding.h"
#include "train/step_plan.h"
#include "train/trainable.h"

namespace hone::training {

// An update that is about to be made.
struct PendingUpdate {
  const Group& group;
  const std::vector<double>& losses;     // of this rank's micro-batches, each its share of the step's mean
  const StepReport& report;              // of this update alone, over all ranks
  std::function<BadTensor()> first_bad;  // makes the passes once more to find it; on all ranks
};

// What happens around an update; what throws before it leaves the weights as they are.
struct UpdateHooks {
  std::function<bool(const PendingUpdate&)> before = [](const PendingUpdate&) { return true; };  // false: no update
  std::function<void()> after = [] {};
  // Whether `before` only looks for what is not finite: then a device goes on to the update meanwhile.
  std::function<bool()> only_checks = [] { return false; };
  std::function<bool(const std::string&)> wanted = {};  // which intermediates are logged; empty: none
  // Whether a step's numbers may come when the next one is being made, or by settle(); then they are told here.
  std::function<bool()> reads_late = [] { return false; };
  std::function<void(const StepReport&)> late = [](const StepReport&) {};
  // Whether answers that are given in this step are told of; then here, on the first rank.
  std::function<bool(std::int64_t step)> tells_answers = {};
  std::function<void(const std::vector<std::string>& lines)> answers = {};
};

// One run's, on one rank: of a step's micro-batches each size()th is this rank's, or its group's, of which each rank
// computes some of the tokens (train/context.h). The recipe, the frame and the data
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
  // Of the last step, whose report lacks all that is computed. settle(): reads it, where there is one, and tells it;
  // false: what it gave was not finite, and its update was left out after all. Throws as step().
  bool is_unread() const { return unread_.has_value(); }
  bool settle();
  // goes_on: there are further steps; else a stream is not opened once more.
  void seek(const RunState& state, bool goes_on) {
    const auto rows = state.rows < 0 ? std::nullopt : std::optional(state.rows);
    if (goes_on || data_->as_dataset()) loader_.seek(state.step, state.data_position, rows);
    if (!state.objective.empty()) objective_->set_state(state.objective);
    round_weights(model_, recipe_, state.step);
  }
  bool has_data() { return loader_.has_next(); }  // waits for it; false: a stream has ended
  std::optional<double> epoch_at(std::int64_t step) const { return loader_.epoch_at(step); }
  // Numbers of documents that the objective wants before the first step; loads what models it has.
  void begin(const DocumentNumbers::Data& data);
  // A batch of an evaluation set, as loss() of that model measures it; nullptr: this rank has none, and others have.
  void complete(Batch* batch, Model& model) const;
  const Objective& objective() const { return *objective_; }
  RunResources& resources() { return resources_; }
  const Optimizer& optimizer() const { return frame_.optimizer(); }
  Updater& updater() { return frame_.updater(); }

 private:
  StepReport update(const Group& group, bool is_the_only_one);
  void count(const StepReport& update, StepReport& step);
  void tell(const StepReport& step);
  void choose_trained();
  // How this rank goes through its micro-batches that learn: one pass for each, and none where others have one.
  struct Passes {
    std::vector<bool> learns;
    std::size_t count = 0;  // of the rank that has most
    std::vector<std::optional<std::int64_t>> numbers = {};  // of this rank's, where they have some
  };
  using SeedOf = std::function<std::uint64_t(std::size_t)>;  // of a micro-batch of this rank
  BadTensor first_bad(const Group& group, const Passes& passes, const SeedOf& seed_of);
  BadTensor first_bad_value(const Batch& batch, std::uint64_t seed) const;
  void check_groups(const std::vector<Sums>& told) const;
  Sums amounts(const Group& group, const Group& own, Passes& passes, StepReport& report) const;
  // Of the rank's i-th micro-batch: its number in the update, from which its dropout follows.
  std::uint64_t number_of(std::size_t i, const Passes& passes) const {
    const auto told = i < passes.numbers.size() ? passes.numbers[i] : std::nullopt;
    return told ? static_cast<std::uint64_t>(*told) : i * context_.takers() + context_.taker();
  }
  // One update, from its passes to what comes of them.
  struct Work {
    Group group;  // where the model is: this rank's tokens
    Passes passes;
    Amounts amounts;
    StepReport report;
    std::vector<Passed> passed = {};
    std::optional<host::Asked> asked = {};  // the norm, if has_norm, and what has to be finite; then the rest
    bool has_norm = false;
    std::size_t checked = 0;  // so many have to be finite
  };
  struct Unread {
    Work work;
    std::int64_t step = 0, tokens = 0;  // of the run before it
  };
  SeedOf seeds(const Passes& passes) const;
  void make_passes(Work& work);
  void ask(Work& work, const Tensor& norm);
  std::vector<double> read(Work& work) const;
  StepReport decide(Work& work);
  bool may_read_late(const Work& work) const;
  void make_again(Unread& late);
  Passed make_pass(const Batch& batch, const Amounts& amounts, std::uint64_t seed);
  Output forward(const Batch& batch, Pass& pass) const;
  Passed backward(const Batch& batch, Pass& pass, const Amounts& amounts);
  // The same with labels that the model draws; `stream` names its draws.
  void backward_of_drawn(const Batch& batch, const Amounts& amounts, std::uint64_t seed, const std::string& stream);
  Tensor mean(const LossTerms& terms, const Amounts& amounts) const;
  void each_pass(const Passes& passes, const std::function<void(std::size_t)>& pass);
  // Of the model as it is now, where this update is one after which the optimizer wants it.
  // false: its gradients were not finite, and the estimate is what it was.
  bool estimate_curvature(const Group& group, const Passes& passes, const Amounts& amounts, double labels);
  bool overflows(StepReport& report);
  Tensor norm_there();  // Updater::norm_there(); undefined also where the host has to see the gradients first
  void update_buffers(const std::vector<Passed>& passed);
  void measure_size(std::int64_t step, StepReport& report) const;  // where it is not the same in all steps
  Group next_group(bool further);  // this rank's part of the next step, or of what is further asked for this one
  StepContext context(Model& model) const;
  void complete(Group& group) const;
  Batch completed(const Batch& batch) const;  // for a pass through it, with numbers that are made pass by pass
  // Asks the objective for something; what it throws says so.
  template <class Work>
  decltype(auto) asked(const char* what, const Work& work) const {
    const std::int64_t step = frame_.run.step + 1;
    return in_plugin([&] { return fmt::format("objective {}, {}, step {}", recipe_.objective.type, what, step); },
                     work);
  }

  const Recipe& recipe_;
  Frame& frame_;
  Model& model_;
  World world_;
  ContextGroup context_;
  std::unique_ptr<Objective> objective_;
  RunResources resources_;
  DocumentNumbers numbers_;
  std::size_t groups_ = 1;  // of the step at hand
  bool by_pass_ = false;    // its numbers of documents are made with each pass
  std::optional<Unread> unread_;
  const std::unique_ptr<RecordedPasses> recorded_;  // null: passes are made op by op
  const TrainedByStep trained_;
  const data::StepSizes sizes_;
  const std::function<std::int64_t(std::int64_t)> longest_;
  const std::shared_ptr<const TrainingData> data_;
  Loader loader_;
};

}  // namespace hone::training
