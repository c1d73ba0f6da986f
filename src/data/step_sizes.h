// How many rows each step of a run has, and how many all steps before it.
#pragma once

#include <cstdint>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// A function of the options and the step alone.
class StepSizes {
 public:
  StepSizes(std::int64_t batch_size, std::int64_t accumulate, const std::vector<Loader::Stage>& warmup);

  struct Size {
    std::int64_t batch_size = 1, accumulate = 1;
    std::int64_t rows() const { return batch_size * accumulate; }
  };
  Size at(std::int64_t step) const;  // steps are counted from 0
  std::int64_t rows_before(std::int64_t step) const;
  std::int64_t steps_for(double rows) const;  // the least that have so many rows together

 private:
  struct Stretch {
    std::int64_t begin = 0;  // step
    std::int64_t rows_before = 0;
    Size size;
  };
  const Stretch& stretch_at(std::int64_t step) const;
  std::vector<Stretch> stretches_;  // one after another; the last does not end
};

}  // namespace hone::data
