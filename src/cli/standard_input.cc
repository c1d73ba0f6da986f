// The C++ streams take a failed read for the end of the input; read(2) does not.
#include "cli/standard_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/env.h"

namespace hone::cli {

void require_standard_input() {
  struct stat info{};
  if (::fstat(STDIN_FILENO, &info) != 0) throw_system_error(ErrorKind::data, "standard input", "cannot be read", errno);
  if (S_ISDIR(info.st_mode)) throw_system_error(ErrorKind::data, "standard input", "cannot be read", EISDIR);
}

std::string read_standard_input() {
  require_standard_input();
  std::string text, block(1 << 16, '\0');
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(ErrorKind::data, "standard input", "cannot be read", errno);
    if (count == 0) return text;
    text.append(block, 0, static_cast<std::size_t>(count));
  }
}

}  // namespace hone::cli
