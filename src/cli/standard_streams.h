// The three streams that a program starts with, as they may be: closed, a folder, a pipe.
#pragma once

#include <string>

namespace hone::cli {

// Gives closed ones of the file descriptors 0, 1 and 2 something that can neither be read nor written: else the next
// file that is opened takes that number, and what is printed lands in a checkpoint. Call it before threads start.
void hold_standard_streams();

// Error(data) when standard input is closed or a folder: that is not an empty text.
void require_standard_input();
std::string read_standard_input();  // all of it; Error(data) when it cannot be read

}  // namespace hone::cli
