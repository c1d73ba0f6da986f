// Hooks into a run.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "hone/config.h"
#include "hone/model.h"
#include "hone/tracker.h"

namespace hone {

enum class Action { go_on, evaluate, save, stop };  // the strongest answer wins

// What a callback may read.
struct TrainView {
  std::int64_t step = 0, steps = 0, tokens = 0;
  std::optional<double> epoch = {};  // nothing: the data are a stream
  Model& model;  // with parallel.fsdp its weights are not there (Weight::is_there), and it cannot be computed with
  const std::string& run_folder;
  // Of the evaluations' metrics ("eval_accuracy"), those of which more is better.
  std::span<const std::string> greater_is_better = {};
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

// Plug-in (src/callbacks). Every hook has an empty default.
class HONE_API Callback {
 public:
  static constexpr std::string_view kInterface = "callback";
  virtual ~Callback() = default;
  virtual void on_training_start(const TrainView&) {}
  virtual void on_training_end(const TrainView&) {}
  virtual Action on_step_end(const TrainView&, const Metrics&) { return Action::go_on; }
  virtual Action on_evaluation_end(const TrainView&, const Metrics&) { return Action::go_on; }
  virtual void on_save(const TrainView&, const std::string& /*checkpoint*/) {}
  // Called before each save, and at a resume before on_training_start. What was not saved under its name stays.
  virtual void visit_state(const StateVisitor&) {}
  // The evaluation metric that it acts on, "" = none. A recipe whose run never measures it is refused.
  virtual std::string watches() const { return {}; }
};

}  // namespace hone
