// Monotonic and wall time.
#include "base/clock.h"

#include <chrono>
#include <ctime>

namespace hone {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string iso_utc(double wall) {
  const auto seconds = static_cast<std::time_t>(wall);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, size);
}

std::string iso_utc() { return iso_utc(wall_seconds()); }

}  // namespace hone
