// Sums of what was trained since the last log line; a mean is made once, when it is logged.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "hone/batch.h"
#include "hone/tracker.h"
#include "hone/training_section.h"
#include "hone/world.h"

namespace hone::training {

// One step, as it was: terms are loss terms by name, each a sum and what divides it over the whole step.
struct StepReport {
  std::map<std::string, Metric> terms, metrics;
  double grad_norm = 0, learning_rate = 0;
  std::int64_t tokens = 0, supervised = 0, rows = 0, documents = 0;
  double squares = 0;       // of the documents' lengths
  bool skipped = false;     // nothing in the step carried loss
  std::string why_skipped = {};  // where it is not that no token is supervised
  std::int64_t spikes = 0;  // updates left out for their gradients' norm
  std::int64_t not_finite = 0;  // updates left out for a loss or gradient that was not
  std::int64_t overflows = 0;   // updates left out for gradients too large for fp16
  std::int64_t lost_estimates = 0;  // of the optimizer's curvature, whose gradients were not finite
  bool left_out() const { return skipped || spikes > 0 || not_finite > 0 || overflows > 0; }  // of one update
  // Passes forward and backward, and how often the host waited in them for what a device was to make (tensor/host.h).
  std::int64_t micro_batches = 0, host_waits = 0;

  // A micro-batch of an update whose terms are divided by `step_sums`, over all its micro-batches; `sums`: the terms'.
  // `means`: sum, weight, sum, weight ... of micro_batch.means.
  void add(const LossTerms& micro_batch, std::span<const double> sums, std::span<const double> means,
           const Sums& step_sums);
  void add(const StepReport& update);  // a further update of the same step
  void total(const World& world);      // terms and metrics over all ranks
  double loss() const;                 // sum over terms of sum / weight; 0 when skipped
};

void add(Sums& total, const Sums& more);
// What terms may be divided by in every batch, besides the objective's own amounts.
Sums amounts_of(const Batch& batch);

// Combines a further value as its log mode says.
void combine(Metric& into, const Metric& value);
double value_of(const Metric& metric);

// A number over steps, each of which counts alike (xlstm-jax's log modes single, max and std).
struct Spread {
  std::int64_t steps = 0;
  double last = 0, max = 0, mean = 0, squares = 0;  // squares: of the distances from the mean, summed
  void add(double value);
  double deviation() const;  // of the population
};

// Steps since the last log line. Part of the run's state: a resumed run logs the same numbers.
struct Window {
  std::map<std::string, Metric> terms, metrics;
  double grad_norm = 0, learning_rate = 0;   // of the last step
  std::map<std::string, Metric> given = {};  // by callbacks, in place of what is called so
  std::map<std::string, Spread> spreads = {}, given_spreads = {};
  bool empty() const { return terms.empty() && given.empty(); }  // no step with anything to say
  void add(const StepReport& report);
  void give(const std::string& name, double value, LogMode mode = LogMode::mean);  // of a step
  // loss, each term when there are several, metrics, grad_norm, learning_rate; "loss_max" and the like as modes say.
  Metrics values(std::span<const LogAs> modes = {}) const;
};
nlohmann::json to_json(const Window& window);
Window window_from_json(const nlohmann::json& json);

// Numbers that JSON cannot hold ("inf", "-inf", "nan") are written as text.
nlohmann::json json_number(double value);
nlohmann::json json_of(const Metrics& values);  // counts are whole numbers
double number_from_json(const nlohmann::json& json);

std::uint64_t peak_memory_bytes();

}  // namespace hone::training
