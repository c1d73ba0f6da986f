// Commands of the user's, run by the shell as processes of their own.
#pragma once

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
};

// Waits for /bin/sh -c `command`, which has nothing to read, writes to this process's standard error and has no other
// open file, in a process group of its own: what is typed at the terminal does not end it. "": it ended with 0; else
// why not, as "exit code 3". Any thread.
std::string run_shell(const std::string& command, const ChildOptions& options);

}  // namespace hone
