// The training loop and what happens at the edge of a step: logging, evaluation, checkpoints, signals.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hone/trainer.h"
#include "io/metrics_file.h"
#include "io/run_folder.h"
#include "train/checkpoint.h"
#include "train/hooks.h"
#include "train/inputs.h"
#include "train/state.h"
#include "train/updater.h"

namespace hone::training {

// Further models and files for an objective; none of today's objectives asks for any.
class RunResources final : public Resources {};

struct TrainerParts {
  Recipe recipe;  // resolved
  TrainOptions options;
  Inputs inputs;
  io::RunFolder& run;
  std::optional<io::Checkpoint> from;   // resumed from
  std::vector<config::Change> changes;  // of the recipe, at this resume
};

// One run, in one process, once. The model, the data and the run folder are its own while it lives.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  ~Trainer();
  Summary run();
  StepReport train_step();  // one step of run() and nothing else: for measurements

 private:
  // trainer.cc: the loop
  void update(Group& group, StepReport& report);
  void backward(const Batch& batch, const std::map<std::string, double>& weights, StepReport& report);
  Group next_group();
  bool done() const { return state_.step >= steps_ || !stopped_by_.empty() || interrupted(); }
  bool due(std::int64_t every) const { return every > 0 && state_.step % every == 0; }
  bool interrupted() const;
  double epoch() const;
  TrainView view();

  // steps.cc: what happens between steps
  void start();
  void open_metrics();
  void after_step(const StepReport& report);
  void follow(const Wishes& wishes);
  void log();
  void evaluate();
  void write_metrics(const Metrics& values, const Metrics& varying);
  Summary finish();
  Summary summary(bool complete) const;

  // saving.cc
  void restore();
  bool save_due();
  void maybe_save();  // a failure is reported, training goes on
  void save();        // throws Error(checkpoint)
  void report_failed_save(const Error& error);
  void tidy_checkpoints();
  std::int64_t checkpoints_to_come();
  std::uint64_t checkpoint_bytes();
  CheckpointParts checkpoint_parts();

  // not_finite.cc
  void check_finite(const Group& group, const StepReport& report, const std::vector<double>& losses);

  TrainerParts parts_;
  Recipe& recipe_;
  Model& model_;
  std::int64_t steps_;
  std::string folder_, config_yaml_;
  std::optional<SaveTypes> save_types_;
  hub::ModelFiles files_;
  RunResources resources_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<Loader> loader_;
  Hooks hooks_;
  std::vector<std::unique_ptr<Tracker>> trackers_;
  std::optional<io::MetricsFile> metrics_file_;
  TrainState state_;

  std::vector<double> losses_;       // of the step's micro-batches, each a mean
  std::string stopped_by_;           // a callback
  std::optional<double> evaluated_;  // the main metric, if this very step was evaluated
  Metrics last_metrics_;
  bool save_wanted_ = false;
  std::int64_t saved_step_ = -1;  // last committed checkpoint
  std::string saved_name_;
  double last_save_ = 0, step_seconds_ = 0, slowest_save_ = 0;
  std::int64_t window_steps_ = 0, window_tokens_ = 0, failed_saves_ = 0;
  Stopwatch clock_;
};

}  // namespace hone::training
