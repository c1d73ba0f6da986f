// Hooks into a run.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "hone/model.h"
#include "hone/tracker.h"

namespace hone {

enum class Action { go_on, evaluate, save, stop };  // the strongest answer wins

// What a callback may read.
struct TrainView {
  std::int64_t step = 0, steps = 0, tokens = 0;
  std::optional<double> epoch = {};  // nothing: the data are a stream
  Model& model;
  const std::string& run_folder;
};

// Saves and restores a callback's numbers with the run.
using StateVisitor = std::function<void(const std::string& name, double& value)>;

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
  virtual void visit_state(const StateVisitor&) {}
  // The evaluation metric that it acts on, "" = none. A recipe whose run never measures it is refused.
  virtual std::string watches() const { return {}; }
};

}  // namespace hone
