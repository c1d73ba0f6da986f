// Time: monotonic seconds for every decision, wall time for people only.
#pragma once

#include <string>

namespace hone {

double monotonic_seconds();        // since some fixed moment; never goes back
double wall_seconds();             // since 1970-01-01 UTC
std::string iso_utc();             // now, as "2025-02-03T04:05:06Z"
std::string iso_utc(double wall);  // wall seconds since 1970

class Stopwatch {
 public:
  double seconds() const { return monotonic_seconds() - start_; }
  void restart() { start_ = monotonic_seconds(); }

 private:
  double start_ = monotonic_seconds();
};

}  // namespace hone
