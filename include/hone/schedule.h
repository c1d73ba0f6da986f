// Learning-rate schedules.
#pragma once

#include <cstdint>
#include <string_view>

#include "hone/config.h"

namespace hone {

// Plug-in (src/schedules). It keeps nothing: any step can be asked for at any time.
class HONE_API Schedule {
 public:
  static constexpr std::string_view kInterface = "schedule";
  virtual ~Schedule() = default;
  // Share of the peak learning rate for the update number `step`, counted from 0, of `steps` in all.
  virtual double factor(std::int64_t step, std::int64_t steps) const = 0;
  virtual void check(std::int64_t /*steps*/, Problems&) const {}  // what does not fit a run of so many
};

}  // namespace hone
