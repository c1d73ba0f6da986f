// From the command line to a command, and from an error to an exit code.
#pragma once

#include "hone/command.h"

namespace hone::cli {

using Arguments = std::vector<std::string>;

// Runs `hone <arguments>`; prints errors to stderr. Returns the exit code: 0 done, 75 stopped and resumable, else
// ErrorKind.
int run_program(const Arguments& arguments);

}  // namespace hone::cli
