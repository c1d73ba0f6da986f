// Where numbers go: plug-ins that receive each logged step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "hone/error.h"

namespace hone {

using Metrics = std::map<std::string, double>;

struct RunInfo {
  std::string folder, name, config_yaml;
  std::int64_t steps = 0, start_step = 0;  // of the whole run; where this process begins
  bool quiet = false;
  bool resumed = false;  // from a checkpoint; else nothing that an earlier process has written is of this run
};

// Plug-in (src/trackers). Called by the training thread only; must not throw for I/O trouble (warn instead).
class HONE_API Tracker {
 public:
  static constexpr std::string_view kInterface = "tracker";
  virtual ~Tracker() = default;
  virtual void log(std::int64_t step, const Metrics& metrics) = 0;
  // After every step, logged or not; `tokens` of this step.
  virtual void step(std::int64_t /*step*/, std::int64_t /*tokens*/, double /*loss*/) {}
  virtual void finish() {}
};

}  // namespace hone
