// How messages name this program: as it has to be called for what it is doing, so that a command can be copied.
#pragma once

#include <string>
#include <vector>

namespace hone {

// What is said, behind those that there are, of a name that nobody has registered and that is like none of them
// (`nearest` is ""): a plug-in may have it.
std::string words_of_plugins(const std::string& nearest);

// Files that --plugin has loaded. Of the whole process, said before other threads start.
void remember_plugins(std::vector<std::string> files);
// What stands before the command, for a shell: "hone", or "hone --plugin mine.so".
std::string program_words();

}  // namespace hone
