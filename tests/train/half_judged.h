// Runs that ask for answers of which about half are worth something, and what they logged.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "train/together.h"

namespace hone::test {

class HalfJudged : public Together {
 protected:
  // Of two answers each, about half of which are worth something.
  Overrides asked(const std::string& objective, const Overrides& more = {}) {
    Overrides all{{"trainer.log_every", "1"}, {"trainer.eval_every", "0"}};
    all.insert(all.end(), more.begin(), more.end());
    return asking(
        "type: grpo, num_generations: 2, max_completion_length: 6, rewards: [{type: format, pattern: '[^a-z]*'}], "
        "log_completions: true" +
            (objective.empty() ? "" : ", " + objective),
        all);
  }
  std::vector<double> values(const std::string& run, const std::string& key) {
    std::vector<double> all;
    for (const nlohmann::json& line : metrics_of(in(run)))
      if (line.contains(key)) all.push_back(line[key]);
    return all;
  }
  static double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }
};

}  // namespace hone::test
