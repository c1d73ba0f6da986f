// Where a run's numbers go: metrics.jsonl, the trackers, and the log that its checkpoints carry.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/recipe.h"
#include "io/metrics_file.h"
#include "io/run_folder.h"
#include "train/state.h"

namespace hone::training {

class RunLog {
 public:
  // Lines of metrics.jsonl and completions.jsonl beyond state.step are cut off; `resumed_from`: the checkpoint that the
  // run goes on from, or "".
  // derive: what follows from a line's numbers (Objective::derive).
  RunLog(const io::RunFolder& run, const Recipe& recipe, const RunInfo& info, const RunState& state,
         const std::string& resumed_from, std::function<void(Metrics&)> derive);

  void step(const RunState& state, const StepReport& report, double seconds);  // after each step
  // A line of the steps since the last one; `change` may add to it what does not go into the checkpoint.
  void log(RunState& state, std::optional<double> epoch, const std::function<void(Metrics&)>& change);
  // A line for the trackers, where they have their own interval (state.report): of the steps since their last one;
  // `change` may do as it likes.
  void report(RunState& state, std::optional<double> epoch, const std::function<void(Metrics&)>& change);
  // A line; `varying` is what differs between two equal runs and does not go into the checkpoint.
  void write(RunState& state, std::optional<double> epoch, const Metrics& values, const Metrics& varying,
             bool track = true);
  void answers(const std::vector<std::string>& lines);  // of JSON, for completions.jsonl
  // Of a run that has ended and is saved: trackers tell others so. What they throw then is a warning.
  void finish();
  const Metrics& last() const { return last_; }  // the newest value of each

 private:
  io::MetricsFile file_, answers_;
  at::Device device_;
  std::vector<LogAs> modes_;
  std::function<void(Metrics&)> derive_;
  Metrics values_of(const Window& window) const;
  struct Since {  // the last line
    std::int64_t steps = 0, tokens = 0;
    double seconds = 0;
    Metrics speed(at::Device device) const;
  };
  struct Named {
    std::string name;
    std::unique_ptr<Tracker> tracker;
  };
  template <class Call>
  void each_tracker(const char* what, std::int64_t step, const Call& call) const;
  std::vector<Named> trackers_;
  std::unique_ptr<Tracker> terminal_;
  bool apart_;  // trackers have their own interval
  Metrics last_;
  Since line_, report_;
  struct Done {  // a step, as the terminal is told of it
    std::int64_t step, tokens;
    double loss;
  };
  void draw();
  std::optional<Done> undrawn_;  // a step whose log line comes: the terminal shows it with its own numbers
  std::int64_t log_every_, steps_;
};

}  // namespace hone::training
