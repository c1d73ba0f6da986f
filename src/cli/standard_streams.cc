// The C++ streams take a failed read for the end of the input; read(2) does not.
#include "cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/env.h"

namespace hone::cli {

void hold_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_PATH);  // takes the lowest free number: this one
}

// A read of nothing does not wait, and fails where any other would.
void require_standard_input() {
  char none = 0;
  if (::read(STDIN_FILENO, &none, 0) < 0)
    throw_system_error(ErrorKind::data, "standard input", "cannot be read", errno);
}

std::string read_standard_input() {
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
