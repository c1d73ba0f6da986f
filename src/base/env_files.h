// The loop around every system call of Env, and listing a folder; internal to Env.
#pragma once

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"

namespace hone::env_detail {

// Asks the hook, then makes the call, until neither says EINTR. -1 with errno, or what the call gave.
template <class Call>
auto retried(Env& env, Operation& operation, Call call) -> decltype(call()) {
  for (;;) {
    if (const int injected = env.before(operation)) {
      errno = injected;
      if (injected == EINTR) continue;
      return -1;
    }
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Sorted names in an open folder, without . and ..; closes it. `fail` gets the errno and does not return.
std::vector<std::string> list_and_close(int folder, const std::function<void(int)>& fail);

}  // namespace hone::env_detail
