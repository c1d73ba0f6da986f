// How commands of the user's are run.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hone {

struct ChildOptions {
  std::vector<std::pair<std::string, std::string>> environment = {};  // besides this process's own
  std::vector<std::string> without = {};                              // variables of it that are not passed on
  double seconds = 60;                                           // then it is ended, with all that it has started
  std::function<bool()> stopped = {};                            // it is ended, too, when this becomes true meanwhile
  std::size_t most_output = std::size_t{64} << 20;               // bytes, where they are kept; more, and it is ended
};

}  // namespace hone
