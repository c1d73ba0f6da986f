// What is piped into a command.
#pragma once

#include <string>

namespace hone::cli {

// Error(data) when standard input is closed or a folder: that is not an empty text.
void require_standard_input();
std::string read_standard_input();  // all of it; Error(data) when it cannot be read

}  // namespace hone::cli
