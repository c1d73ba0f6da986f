// The run's callbacks, called together, each when it wants to be; what they ask for is gathered.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "hone/recipe.h"
#include "train/state.h"
#include "train/wishes.h"

namespace hone::training {

class Hooks {
 public:
  // is_first: whether those that only the first rank calls are called here.
  Hooks(const Recipe& recipe, bool is_first);

  bool empty() const { return hooks_.empty(); }
  void training_start(const TrainView& view);
  void training_end(const TrainView& view);
  void epoch_start(const TrainView& view, std::int64_t epoch);
  Wishes epoch_end(const TrainView& view, std::int64_t epoch);
  void step_start(const TrainView& view);
  bool see_gradients(std::int64_t step) const;  // whether any that is called in this step does
  void gradients(const TrainView& view, Metrics& metrics);
  void updated(const TrainView& view, WeightEdit& edit);  // on every rank, of all of them
  Wishes step_end(const TrainView& view, Metrics& metrics);
  bool is_setting(const std::string& name) const { return settings_.contains(name); }  // of the metrics put in so far
  void logs(const TrainView& view, Metrics& line);
  void reports(const TrainView& view, Metrics& line);
  void evaluation_start(const TrainView& view);
  Wishes evaluated(const TrainView& view, Metrics& metrics);
  void saved(const TrainView& view, const std::string& checkpoint);
  void signalled(const TrainView& view, const std::string& name) noexcept;
  void failed(const TrainView& view, const std::string& error) noexcept;

  void store(RunState& state);
  // Of a callback that was not in the run before: nothing. Where there are several of a type, the first takes what the
  // first one kept; what none takes is said.
  void restore(const RunState& state);
  std::function<bool(const std::string&)> wanted();  // which intermediates; empty: none. Asked once

 private:
  struct Hook {
    std::string name;  // "0.early_stopping"
    std::unique_ptr<Callback> callback;
    CallbackTimes times;
    bool is_called;
  };
  struct Wanted;  // intermediates by a callback's pattern
  // What the call puts into the metrics is noted, if they are the callback's settings.
  template <class Call>
  void putting_in(const Callback& callback, const Metrics& metrics, Call&& call);
  void warn_of_unmatched();
  // Which hook it is, and of which step: what a callback throws says so.
  struct Moment {
    const char* hook;
    std::int64_t step;
  };
  static std::string told(const Hook& hook, const Moment& now);
  template <class Call>
  static void ask(Hook& hook, const Moment& now, Call&& call);
  // Of those that are called at all; at_step, at_epoch: of these only at the n-th ones.
  template <class Call>
  void each(const Moment& now, Call&& call);
  template <class Call>
  void each_warned(const Moment& now, Call&& call) noexcept;  // what they throw is a warning
  template <class Call>
  void at_step(const Moment& now, Call&& call);
  template <class Call>
  void at_epoch(const Moment& now, std::int64_t epoch, Call&& call);
  std::vector<Hook> hooks_;
  std::set<std::string> settings_;
  std::vector<std::shared_ptr<Wanted>> wanted_;
};

}  // namespace hone::training
