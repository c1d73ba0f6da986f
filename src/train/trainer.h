// One run: the loop over steps, and what happens at the edge of a step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/temporary.h"
#include "data/template_variables.h"
#include "hone/trainer.h"
#include "io/run_folder.h"
#include "train/evaluate.h"
#include "train/hooks.h"
#include "train/inputs.h"
#include "train/meta_run.h"
#include "train/pace.h"
#include "train/ranking.h"
#include "train/rates.h"
#include "train/run_log.h"
#include "train/run_weights.h"
#include "train/saver.h"
#include "train/state.h"
#include "train/stepper.h"

namespace hone::training {

struct TrainerParts {
  Recipe recipe;  // resolved
  TrainOptions options;
  Inputs inputs;
  io::RunFolder& run;
  std::optional<io::Checkpoint> from;    // resumed from
  std::vector<config::Change> changes;   // of the recipe, at this resume
  std::optional<TrainState> state = {};  // that the run begins with; its model is that of inputs
};

// In one process, once; on each rank of a run. The model, the data and the run folder are its own while it lives.
// Whatever ends, saves or evaluates is agreed between ranks (agree(), evaluate()); rank 0 alone logs and writes, and
// calls the callbacks that do not ask to be called on all of them.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  ~Trainer();
  Summary run();
  const MemoryPlan& expected_memory() const { return memory_; }  // once it has begun, on rank 0
  void begin();             // before the first step: what the objective asks for once
  StepReport train_step();  // one step of run() and nothing else: for measurements
  RunFunctions functions();
  void replace(RunFunctions part);  // before run()
  // Of a state of this model; the run's own: null.
  Metrics measure(TrainState* state, const OnEvaluationStep& each);
  TrainState take_state();  // after run(), once

 private:
  void equip();
  void choose_measures();
  bool is_new_best() const;
  void choose_files();
  StepReport own_step(const Group& group);
  EvaluateOptions evaluation(Model& model);
  Summary run_to_its_end();
  void step();
  void start();
  void begin_edge(const StepReport& report);
  void after_step(const StepReport& report, double seconds);
  void end_step(const StepReport& report);
  void agree();
  void evaluate();
  std::optional<Metrics> measured(const EvaluateOptions& options);
  void told(const Metrics& evaluation, double seconds);
  bool wait_for_data();
  void log();
  void track();
  void tell_rest();
  void tell_not_finite(const StepReport& report);
  void make_up_evaluation();
  void maybe_save();
  void save();
  std::optional<Error> save_whole_steps(const Error& error);
  void end_at_signal(const std::string& name);
  void save_now();
  bool steps_are_whole() const;
  bool agree_on_whole_steps() const;
  void told_saved(const std::vector<std::string>& checkpoints);
  void begin_step();
  bool before_update(const PendingUpdate& update);
  bool writes_gradients() const;  // of the step that is being made
  Summary replay();
  void after_update();
  // Counted from 1; nothing: none begins there, or within the step before, which may be longer than an epoch. Of those
  // alone that begin after so many epochs.
  std::optional<std::int64_t> epoch_begun_at(std::int64_t step, std::int64_t apart = 1) const;
  void plan_evaluation(bool all);                                       // of the step that was made
  Summary finish();
  Summary summary(bool complete) const;

  bool done() const { return state_.step >= steps_ || !stopped_by_.empty() || interrupted(); }
  bool due(std::int64_t every) const { return every > 0 && state_.step % every == 0; }
  bool signalled() const;    // this rank, or its time is up
  bool interrupted() const;  // all ranks
  std::string stop_name() const;
  bool is_time_up() const;
  std::string reason_to_stop() const;  // of this rank
  std::optional<double> epoch() const { return stepper_->epoch_at(state_.step); }
  TrainView view() {
    return {state_.step,
            steps_,
            state_.tokens,
            epoch(),
            model_,
            files_of_callbacks(),
            greater_is_better_,
            &weights_.value(),
            parts_.inputs.tokenizer.get(),
            parts_.inputs.train->as_dataset(),
            eval_data_,
            measures_.rows,
            &world_,
            amounts_,
            &*rates_,
            data::variables_text(recipe_.data.chat_template_kwargs)};
  }
  // While a step is made it is that one's, where its number is not counted yet.
  TrainView view_of_step() {
    TrainView now = view();
    now.step += 1;
    return now;
  }
  // Where callbacks find and write what is theirs: the run folder, but for a replay, which leaves no trace there.
  const std::string& files_of_callbacks() const { return replay_folder_ ? replay_path_ : recipe_.run.folder; }
  std::optional<Worth> worth() const;
  CheckpointParts checkpoint_parts();

  TrainerParts parts_;
  const World& world_;
  Recipe& recipe_;
  Model& model_;
  std::int64_t steps_;
  std::string config_yaml_;
  Hooks hooks_;
  std::optional<TrainState> trained_;
  Frame* frame_;                    // the state's
  RunState& state_;                 // the frame's
  TrainingStep step_function_;      // that replaces the trainer's own; empty: none does
  std::optional<StepReport> made_;  // by the trainer's own, where the other one has called it
  Metrics made_metrics_;            // and what it said of that
  bool begun_ = false;
  std::unique_ptr<Stepper> stepper_;
  std::optional<UpdaterWeights> weights_;
  std::optional<OptimizerRates> rates_;
  StepAmounts amounts_;  // by the last step
  std::vector<NamedDataset> eval_data_;
  Metrics given_;  // by callbacks, in the step that is made
  std::unique_ptr<Saver> saver_;
  std::optional<RunLog> log_;
  Evaluations evaluations_;
  std::vector<std::string> greater_is_better_;  // of their metrics
  // The epoch in which the step that was begun last began; it may be given further rows on its way.
  std::optional<double> began_;
  std::optional<SaveTypes> save_types_;
  MemoryPlan memory_;
  hub::ModelFiles files_;
  std::vector<BesideFiles> beside_;  // of models that are trained with it

  std::optional<TemporaryFolder> replay_folder_;
  std::string replay_path_;

  Pace pace_;
  Wishes asked_;            // of this rank's, since ranks have last agreed
  std::string signal_;      // that some rank was sent
  std::string stopped_by_;  // a callback, or kEndOfData
  Measures measures_;
  std::optional<double> evaluated_;  // that metric, if it was measured at this very step
  bool was_evaluated_ = false;       // at this very step
  bool best_is_watched_ = false;     // by a callback: each new best one is saved
  bool save_wanted_ = false;
  bool worked_ = false;         // a step was made, or an evaluation, or the data have ended
  bool goes_on_ = false;        // interrupted: what is saved is not the end of the run
  bool gradients_failed_ = false;  // they could not be written: nothing is wrong with the steps before
  double time_limit_ = 0;       // seconds of this process; 0: none
  double waited_for_data_ = 0;  // seconds, before the step that is made
  std::int64_t updated_for_ = 0;  // the step that the newest update is of, or the one that has begun
  // What a step changes before its updates, as it was before; nothing: no step has begun since the last one's end.
  struct BeforeStep {
    Sums objective;
    LossScale loss_scale;
  };
  std::optional<BeforeStep> before_step_;
  bool reads_late_ = false;     // a step of run(), whose numbers nobody needs at once
  double step_seconds_ = 0;     // of the last step
  Stopwatch clock_;
};

}  // namespace hone::training
