// The run's callbacks, called together; what they ask for is gathered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hone/recipe.h"
#include "train/state.h"
#include "train/wishes.h"

namespace hone::training {

class Hooks {
 public:
  explicit Hooks(const std::vector<config::Choice<Callback>>& callbacks);
  void start(const TrainView& view);
  void end(const TrainView& view);
  Wishes step(const TrainView& view, const Metrics& metrics);
  Wishes evaluated(const TrainView& view, const Metrics& metrics);
  void saved(const TrainView& view, const std::string& checkpoint);
  void store(TrainState& state);
  void restore(const TrainState& state);  // of a callback that was not in the run before: nothing

 private:
  struct Hook {
    std::string name;  // "0.early_stopping"
    std::unique_ptr<Callback> callback;
  };
  std::vector<Hook> hooks_;
};

}  // namespace hone::training
