// What is said of a record that cannot be learnt of.
#pragma once

#include <fmt/format.h>

#include <string>

#include "data/place.h"

namespace hone::data {

[[noreturn]] inline void fail(const Place& place, const std::string& fact) {
  throw Error(ErrorKind::data, fmt::format("{}: {}", place.text(), fact));
}

}  // namespace hone::data
