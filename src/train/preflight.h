// What is about to be trained, in the lines printed before step 0, and what looks unusual about it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/meta_run.h"
#include "train/inputs.h"
#include "train/save_types.h"

namespace hone::training {

struct Preflight {
  std::vector<std::string> lines, warnings;
  nlohmann::ordered_json report;               // the same in numbers
  std::vector<std::string> all_lines() const;  // the warnings marked as such
};
// memory: of one of so many ranks on this machine.
Preflight describe_inputs(const Recipe& recipe, const Inputs& inputs, const SaveTypes& save_types,
                          const MemoryPlan& memory, int ranks);
// Of a run that nobody starts: nothing is written.
Preflight preflight_of(const Recipe& given);

}  // namespace hone::training
