// What is told of a step's answers: completions.jsonl in the run folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "objectives/rollouts.h"

namespace hone::objectives {

// Numbers of each answer, by the names that they have in the file; NaN: nothing is said.
struct ToldNumbers {
  std::map<std::string, std::vector<double>> rewards, others;
};

// A line for each answer of all ranks, in the order of the step's micro-batches, where the step is one that is told of
// (StepContext::tell_answers); so many of them, from all over the step, in the log as well.
void tell_completions(const Rollout& rollout, const ToldNumbers& numbers, std::int64_t printed,
                      const StepContext& context);

}  // namespace hone::objectives
