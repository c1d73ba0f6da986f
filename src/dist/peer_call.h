// A call of c10d, whose errors are of other ranks.
#pragma once

#include <fmt/format.h>

#include <string>

#include "hone/error.h"

namespace hone::dist {

// What call() gives. Throws Error(peer) that says what was done, and the first line of what c10d says.
template <class Call>
auto peer_call(const std::string& doing, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw Error(ErrorKind::peer, fmt::format("{}: {}", doing, text.substr(0, text.find('\n'))));
  }
}

}  // namespace hone::dist
