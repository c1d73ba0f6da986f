// Lengths of time as people write them.
#pragma once

#include <optional>
#include <string>

namespace hone::config {

// Seconds: "2h30m", "90 min", "1d 12h", "45s", "1.5 hours". Nothing: it is none, as a number without a unit.
std::optional<double> seconds_of(const std::string& text);

}  // namespace hone::config
