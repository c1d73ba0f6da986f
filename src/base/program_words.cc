// The program's name with its plug-ins.
#include "base/program_words.h"

#include <utility>

#include "base/shell_words.h"

namespace hone {
namespace {

std::vector<std::string>& plugins() {
  static std::vector<std::string> files;
  return files;
}

}  // namespace

std::string words_of_plugins(const std::string& nearest) {
  return nearest.empty() ? "; those of a plug-in come by hone --plugin FILE COMMAND" : "";
}

void remember_plugins(std::vector<std::string> files) { plugins() = std::move(files); }

std::string program_words() {
  std::vector<std::string> words{"hone"};
  for (const std::string& file : plugins()) words.insert(words.end(), {"--plugin", file});
  return shell_line(words);
}

}  // namespace hone
