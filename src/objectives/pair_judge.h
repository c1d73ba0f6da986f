// A program of the user's that says which of two answers is the better one.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "hone/config_read.h"
#include "objectives/rollouts.h"

namespace hone::objectives {

struct JudgeOptions {
  std::string command;
  double timeout = 300;
  std::int64_t retries = 0;
  static constexpr auto fields() {
    using C = JudgeOptions;
    return std::tuple{
        field("command", &C::command,
              "Instead of rewards: what /bin/sh runs once per step, in the folder that hone was started in. It reads a "
              "line of JSON for each prompt: {\"prompt\", \"completions\", \"complete\", \"reference\", \"record\", "
              "\"step\"}, where completions are two, and writes a line for each, in their order: how likely the first "
              "is the better one, from 0 to 1, null where it cannot say, or an object with \"first\"."),
        field("timeout", &C::timeout,
              "Seconds for the answers of a step; then it is ended, and so is the run, unless there are retries.",
              {.low = 0.01, .high = 86400}, OnResume::record),
        field("retries", &C::retries,
              "How often it is started anew, with the same lines, where it takes too long, ends with an exit code or "
              "writes another number of lines; with a warning, after 1 s, then 2, 4 ..., 60 at most.",
              {.low = 0, .high = 1000}, OnResume::record)};
  }
  bool is_there() const { return !command.empty(); }
  void validate(Problems& problems) const;
};

// Of each prompt of a rollout with two answers to each, how likely the first is the better one; NaN: it does not say.
// Throws Error(data): what is wrong with the program or its answers.
std::vector<double> judged_pairs(const JudgeOptions& judge, const Rollout& rollout, std::int64_t step);

}  // namespace hone::objectives
