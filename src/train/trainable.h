// Which weights of a model are trained, and when: model.trainable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hone/model.h"
#include "hone/recipe.h"

namespace hone::training {

struct RunState;
class Updater;

// Freezes all weights but those that are trained in some step; no entries: all stay trainable. Throws Error(config) for
// an expression that matches no weight, with names that there are.
void choose_trainable(Model& model, const std::vector<TrainableWeights>& entries);

std::int64_t trained_parameters(const Model& model);

// Turns counts of updates that were made by one list of weights, as a checkpoint holds them, into those by another one:
// where that would presume others, a weight keeps the updates that it has had (own_updates).
void keep_updates(const std::vector<TrainableWeights>& before, const std::vector<TrainableWeights>& now, Model& model,
                  RunState& state);

// Whether some weights are trained in some of the steps only.
bool trained_by_step(const std::vector<TrainableWeights>& entries);

struct StepWindow {
  std::int64_t from = 0, until = 0;  // steps from <= step < until
};

// When each weight is trained. Empty where all of them always are.
class TrainedByStep {
 public:
  // Throws Error(config) where nothing would be trained in some of the run's steps.
  TrainedByStep(const std::vector<TrainableWeights>& entries, Model& model, std::int64_t steps);

  // The step behind state.step others; its counts of updates are completed.
  void begin_step(RunState& state, Updater& updater) const;
  void count(RunState& state) const;                 // an update in that step
  std::int64_t parameters(std::int64_t step) const;  // so many are trained
  bool empty() const { return alike_.empty(); }

 private:
  struct Alike {
    std::vector<StepWindow> windows;
    std::int64_t parameters = 0;
  };
  bool trains(const std::string& weight, std::int64_t step) const;
  std::map<std::string, Alike> alike_;          // by the name of their windows: "100-500"
  std::map<std::string, std::string> windows_;  // by the weight's name
};

}  // namespace hone::training
