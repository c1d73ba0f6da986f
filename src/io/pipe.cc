// Reads with poll(), so that who waits can be told to stop.
#include "io/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/env.h"

namespace hone::io {
namespace {

constexpr int kWaitMs = 100;

}  // namespace

bool is_pipe(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::is_fifo(path, unknown);
}

Pipe::Pipe(const std::filesystem::path& path, std::function<void()> waiting)
    : path_(path), waiting_(std::move(waiting)), fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (fd_ < 0) throw_system_error(ErrorKind::data, path_, "cannot open", errno);
}

Pipe::~Pipe() { close(fd_); }

// A FIFO that no writer has opened yet reads as ended but polls as silent: so poll() comes first, always.
std::size_t Pipe::read(std::span<std::byte> into) {
  for (;;) {
    pollfd one{fd_, POLLIN, 0};
    const int ready = poll(&one, 1, kWaitMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      if (waiting_) waiting_();
      continue;
    }
    const ssize_t count = ready < 0 ? -1 : ::read(fd_, into.data(), into.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EAGAIN && errno != EINTR) throw_system_error(ErrorKind::data, path_, "cannot read", errno);
  }
}

}  // namespace hone::io
