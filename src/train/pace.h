// Which rank the others wait for.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hone::training {

class Pace {
 public:
  static constexpr std::int64_t kSteps = 20;
  static constexpr double kSlow = 1.5;  // times the median rank

  // Of each rank the seconds of a step in which it did not wait. After each kSteps steps what is to be said of a rank
  // that is slow, once of each; else "".
  std::string add(const std::vector<double>& busy);

 private:
  std::vector<double> sums_;
  std::int64_t steps_ = 0;
  std::set<std::size_t> said_;
};

}  // namespace hone::training
