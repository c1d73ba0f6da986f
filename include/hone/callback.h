// Hooks into a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/tracker.h"

namespace hone {

class Dataset;    // hone/data.h
class Tokenizer;  // hone/text.h
class World;      // hone/world.h

enum class Action { go_on, evaluate, save, stop };  // the strongest answer wins

// A run's weights as they are trained, by name: in fp32 (fp64), whatever the run computes in. With parallel.fsdp what
// this rank has of them, in one dimension.
class HONE_API RunWeights {
 public:
  using Visit = std::function<void(const std::string& name, const Tensor& value)>;
  virtual ~RunWeights() = default;
  virtual void each(const Visit& visit) const = 0;
  // Their gradients, summed over the step and all ranks, before clipping; zero where there is none. In on_gradients
  // alone.
  virtual void each_gradient(const Visit& visit) const = 0;
  virtual bool shared_out() const = 0;
  // Whether the model has the averages now that are evaluated and saved in their place (trainer.ema).
  virtual bool averaged() const = 0;
};

// The same, to be changed: what visit() does to a tensor is trained on from there, and so are the values of one that it
// assigns: of the weight's shape, and cast to its type.
class HONE_API WeightEdit {
 public:
  using Visit = std::function<void(const std::string& name, Tensor& value)>;
  virtual ~WeightEdit() = default;
  virtual void each(const Visit& visit) = 0;
  // The averages that are evaluated and saved in their place (trainer.ema), of the same names; where an optimizer makes
  // them when they are asked for, what they are made of.
  virtual void each_average(const Visit& visit) = 0;
};

// What a step was made of, over all ranks.
struct StepAmounts {
  std::int64_t tokens = 0, supervised = 0, rows = 0, documents = 0;
  double squares = 0;  // of the documents' lengths, summed: what attention grows with
};

// Weights that are updated alike, and by what: "learning_rate", and "weight_decay" and "momentum" where their optimizer
// has them.
struct OptimizerGroup {
  std::string name;  // "": there is one group
  Metrics settings;
};
class HONE_API RunOptimizer {
 public:
  virtual ~RunOptimizer() = default;
  virtual std::vector<OptimizerGroup> groups() const = 0;  // as the step used them that was made last
};

struct NamedDataset {
  std::string name;
  const Dataset* data;
};

inline const std::map<std::string, std::string> kNothingMeasured;

// What a callback may read.
struct TrainView {
  std::int64_t step = 0, steps = 0, tokens = 0;
  std::optional<double> epoch = {};  // nothing: the data are a stream
  Model& model;  // with parallel.fsdp its weights are not there (Weight::is_there), and it cannot be computed with
  const std::string& run_folder;
  // Of the evaluations' metrics ("eval_accuracy"), those of which more is better.
  std::span<const std::string> greater_is_better = {};
  const RunWeights* weights = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const Dataset* train_data = nullptr;  // null: a stream
  std::span<const NamedDataset> eval_data = {};
  // Fingerprints of the rows that are measured, by what their metrics begin with ("eval_", "eval_books_"): numbers of
  // others cannot be compared with them.
  const std::map<std::string, std::string>& measured_rows = kNothingMeasured;
  const World* world = nullptr;
  StepAmounts made = {};  // the step that was made last by this process
  const RunOptimizer* optimizer = nullptr;
  std::string chat_template_kwargs = {};  // of data: variables of the chat template, a JSON object; "" = none
};

// At which steps and epochs a callback's hooks are called, and by whom.
struct CallbackTimes {
  std::int64_t every_n_steps = 1, every_n_epochs = 1;  // each n-th, counted from 1; 0: at none
  bool main_process_only = true;                       // false: on every rank, as after_update always is
};

// Takes what a callback keeps with the run, by name, to save it or to put in what was saved. A name has no "/", and
// always the same kind of value.
class HONE_API StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void operator()(const std::string& name, double& number) const = 0;
  // Of any type that safetensors has. A tensor that is there keeps type, shape and device: Error(checkpoint) when
  // others were saved; an undefined one becomes what was saved, on the CPU. An undefined one is not saved.
  virtual void operator()(const std::string& name, Tensor& tensor) const = 0;
  // As many as there are, such as one for each weight; becomes those that were saved, each as above.
  virtual void operator()(const std::string& name, std::map<std::string, Tensor>& tensors) const = 0;
  // Anything that JSON holds.
  virtual void operator()(const std::string& name, config::Node& json) const = 0;
};

// Plug-in (src/callbacks). Every hook has an empty default. In the order of a step: on_epoch_start where one begins,
// on_step_start, on_gradients, after_update, on_step_end, on_epoch_end where one ends, on_log, on_report, evaluation,
// save.
class HONE_API Callback {
 public:
  static constexpr std::string_view kInterface = "callback";
  virtual ~Callback() = default;
  virtual CallbackTimes times() const { return {}; }  // of the hooks of steps and epochs; asked for once

  virtual void on_training_start(const TrainView&) {}
  virtual void on_training_end(const TrainView&) {}
  virtual void on_epoch_start(const TrainView&, std::int64_t /*epoch*/) {}  // counted from 1
  virtual Action on_epoch_end(const TrainView&, std::int64_t /*epoch*/) { return Action::go_on; }
  virtual void on_step_start(const TrainView&) {}  // view.step is the step before
  // Between the backward passes and the update. Here, in after_update and in on_step_end view.step is the step that is
  // being made, whose tokens are counted by on_step_end. Metrics put in here and in on_step_end are logged as means
  // over the steps that have them (but see gives_settings); one that is there already is replaced.
  virtual void on_gradients(const TrainView&, Metrics&) {}
  // Whether on_gradients does anything. Where no callback's does, a device goes on to the update while the host waits
  // for the step's loss.
  virtual bool sees_gradients() const { return true; }
  // The only hook that may change weights. Each rank has them, or a share of them, so it is called on every rank,
  // whatever main_process_only says: what it does must be the same on each, and a hook that prepares it, such as
  // on_training_start, is called on all of them only where main_process_only is false.
  virtual void after_update(const TrainView&, WeightEdit&) {}
  virtual Action on_step_end(const TrainView&, Metrics&) { return Action::go_on; }
  virtual void on_log(const TrainView&, Metrics& /*line*/) {}  // before it is written
  // Where trackers have their own interval (trainer.report_every), before one of their lines goes to them: what on_log
  // puts in is not in it. Behind on_log where both are due.
  virtual void on_report(const TrainView&, Metrics& /*line*/) {}
  virtual void on_evaluation_start(const TrainView&) {}
  virtual Action on_evaluation_end(const TrainView&, Metrics&) { return Action::go_on; }
  virtual void on_save(const TrainView&, const std::string& /*checkpoint*/) {}
  // "SIGTERM": before the run stops. What is thrown here is a warning.
  virtual void on_signal(const TrainView&, const std::string& /*name*/) {}
  // The run ends with this error, in the middle of something. What is thrown here is a warning.
  virtual void on_error(const TrainView&, const std::string& /*error*/) {}

  // Called before each save, and at a resume before on_training_start; and before a run begins, of a callback that is
  // made for that, to see that the names are good. What was not saved under its name stays.
  virtual void visit_state(const StateVisitor&) {}
  // Before a run of so many steps begins, and before anything is written: Error(config) for what it cannot do. The
  // model has its adapter, but its weights need not be filled.
  virtual void check(Model&, std::int64_t /*steps*/) const {}
  // Whether it needs weights whole: then a run that shares them out (parallel.fsdp) is refused before it begins.
  virtual bool needs_whole_weights() const { return false; }
  // The evaluation metric that it acts on, "" = none. A recipe whose run never measures it is refused.
  virtual std::string watches() const { return {}; }
  // Of the values that layers hand out (Pass::sow), those whose name this regular expression is found in are logged; ""
  // = none.
  virtual std::string intermediates() const { return {}; }
  // Whether the metrics that it puts in are settings, of which a line has the last one, not their mean.
  virtual bool gives_settings() const { return false; }
};

}  // namespace hone
