// Whether a recipe fits the length of its run: its learning-rate schedule, and evaluations that something acts on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/recipe.h"

namespace hone::training {

// The names of a run's evaluation sets, in their order.
std::vector<std::string> eval_sets(const Recipe& recipe);

// When a metric is measured, besides at the end of the run.
struct MetricTimes {
  std::string option;      // that says how often
  std::int64_t every = 0;  // steps; 0: not by steps
  bool by_epochs = false;
  bool never() const { return every == 0 && !by_epochs; }
};
// By the evaluation set that its name begins with; "" = the main metric, which is of the first set.
MetricTimes times_of(const Recipe& recipe, const std::string& metric);

// Found by find_contradictions() where the recipe gives the steps, else (epochs) as soon as the data is read.
void check_schedule(const Recipe& recipe, std::int64_t steps, Problems& problems);

}  // namespace hone::training
