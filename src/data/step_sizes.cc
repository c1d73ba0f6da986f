// How many rows each step of a run has.
#include "data/step_sizes.h"

#include <algorithm>
#include <cmath>

namespace hone::data {

StepSizes::StepSizes(std::int64_t batch_size, std::int64_t accumulate, const std::vector<Loader::Stage>& warmup) {
  std::int64_t begin = 0, rows = 0;
  for (const Loader::Stage& stage : warmup) {
    HONE_ASSERT(stage.until > begin && stage.batch_size > 0 && stage.accumulate > 0);
    const Size size{stage.batch_size, stage.accumulate};
    stretches_.push_back({begin, rows, size});
    rows += (stage.until - begin) * size.rows();
    begin = stage.until;
  }
  stretches_.push_back({begin, rows, {batch_size, accumulate}});
}

const StepSizes::Stretch& StepSizes::stretch_at(std::int64_t step) const {
  return *std::prev(std::upper_bound(stretches_.begin(), stretches_.end(), step,
                                     [](std::int64_t at, const Stretch& stretch) { return at < stretch.begin; }));
}

StepSizes::Size StepSizes::at(std::int64_t step) const { return stretch_at(step).size; }

std::int64_t StepSizes::rows_before(std::int64_t step) const {
  const Stretch& stretch = stretch_at(step);
  return stretch.rows_before + (step - stretch.begin) * stretch.size.rows();
}

std::int64_t StepSizes::steps_for(double rows) const {
  const auto after = std::upper_bound(
      stretches_.begin() + 1, stretches_.end(), rows,
      [](double wanted, const Stretch& next) { return wanted <= static_cast<double>(next.rows_before); });
  const Stretch& stretch = *std::prev(after);
  const double missing = rows - static_cast<double>(stretch.rows_before);
  return stretch.begin + static_cast<std::int64_t>(std::ceil(missing / static_cast<double>(stretch.size.rows())));
}

}  // namespace hone::data
