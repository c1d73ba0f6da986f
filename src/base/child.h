// Commands of the user's, run by the shell as processes of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/child_options.h"

namespace hone {

// The variables that make a rank of a hone, or of a program of LibTorch's, that finds them in its environment.
const std::vector<std::string>& rank_variables();

// Waits for /bin/sh -c `command`, which has nothing to read, writes to this process's standard error and has no other
// open file, in a process group of its own: what is typed at the terminal does not end it; where this process ends
// first, also by SIGKILL, the group is ended. "": it ended with 0; else why not, as "exit code 3". Any thread.
std::string run_shell(const std::string& command, const ChildOptions& options);

struct ChildResult {
  std::string failure;  // as above
  std::string output;   // what it had written until then
};
// The same of a command that reads `input`, or as much of it as it likes, and whose standard output is kept. What it
// leaves behind may go on, but is heard no more.
ChildResult run_shell(const std::string& command, const ChildOptions& options, std::string_view input);

}  // namespace hone
