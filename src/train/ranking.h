// Which checkpoints of a run are its best: what that goes by, and what becomes of them when it goes by something else.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "train/evaluate.h"
#include "train/state.h"

namespace hone::training {

struct Worth {
  Best found;
  bool rises;  // more of the metric is better
};

// Among the best, of which an earlier one comes before its equal; `places` of them are left.
void rank(const Worth& worth, std::int64_t places, std::vector<Best>& best);

// What a run measures from now on.
struct Measures {
  BestBy best_by;
  std::string prefix;                       // of best_by.metric: "eval_", "eval_books_"
  std::map<std::string, std::string> rows;  // fingerprints of what is measured, by prefix
};
Measures measures_of(const Recipe& recipe, const Inputs& inputs, const Evaluations& evaluations);

// Whether it would be the first of them.
bool is_better(const Worth& worth, const std::vector<Best>& best);
// At a run's end: warns where a step after `since` that was evaluated and not saved was better than all that were.
void tell_unsaved_best(const RunState& state, const Measures& measures, std::int64_t since);

// Whether the log has an evaluation at the very step that the run is at.
bool is_on_record(const RunState& state, const Measures& measures);

// When a run begins or goes on. Where "best" means something else now, is measured on other rows, or where one of the
// best is not among the steps `there` (checkpoints that are whole and finite), the order is made again from the
// evaluations on record, and what changes is said. What was best until "best" came to mean something else stays.
void review_best(RunState& state, const Measures& now, const std::set<std::int64_t>& there, const std::string& folder);

}  // namespace hone::training
