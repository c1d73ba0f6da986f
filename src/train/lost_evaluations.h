// What a recipe's layers say of evaluations, where a later one takes away what is evaluated on.
#pragma once

#include <map>
#include <string>

#include "hone/config.h"

namespace hone::training {

// meet() after each layer that has been put on top, drop() after the last one.
class LostEvaluations {
 public:
  explicit LostEvaluations(const config::Node& root) : before_(root) {}
  void meet(const config::Node& root);
  // Where nothing is left to evaluate on, the options that lay below the layer that took it away; with
  // a note, but for data.eval: null.
  void drop(config::Node& root, config::Problems& problems) const;

 private:
  config::Node before_;                          // without the next layer
  std::map<std::string, config::Mark> options_;  // and where they were written
  config::Mark taken_at_;
};

}  // namespace hone::training
