// Which weights of a model are trained, and when: model.trainable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hone/model.h"
#include "hone/recipe.h"

namespace hone::training {

class Updater;

// Freezes all weights but those that are trained in some step; no entries: all stay trainable. Throws Error(config) for
// an expression that matches no weight, with names that there are.
void choose_trainable(Model& model, const std::vector<TrainableWeights>& entries);

std::int64_t trained_parameters(const Model& model);

// Whether some weights are trained in some of the steps only.
bool trained_by_step(const std::vector<TrainableWeights>& entries);

// Of weights that are trained in the same steps how many updates they have had, by TrainedByStep's names of them: part
// of a run's state.
using UpdateCounts = std::map<std::string, std::int64_t>;

// When each weight is trained. Empty where all of them always are.
class TrainedByStep {
 public:
  // Throws Error(config) where nothing would be trained in some of the run's steps.
  TrainedByStep(const std::vector<TrainableWeights>& entries, Model& model, std::int64_t steps);

  // The step behind `step` others. `updates`: of the run; `counts`: of the weights, completed.
  void begin_step(std::int64_t step, std::int64_t updates, UpdateCounts& counts, Updater& updater) const;
  void count(std::int64_t step, UpdateCounts& counts) const;  // an update in that step
  std::int64_t parameters(std::int64_t step) const;           // so many are trained
  bool empty() const { return alike_.empty(); }

 private:
  struct Window {
    std::int64_t from = 0, until = 0;  // steps from <= step < until
  };
  struct Alike {
    std::vector<Window> windows;
    std::int64_t parameters = 0;
    bool trains(std::int64_t step) const;
  };
  static std::string name_of(const std::vector<Window>& windows);
  std::map<std::string, Alike> alike_;          // by the name of their windows: "100-500"
  std::map<std::string, std::string> windows_;  // by the weight's name
};

}  // namespace hone::training
