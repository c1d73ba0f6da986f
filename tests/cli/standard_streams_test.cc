// The number of a closed stream goes to no other file.
#include "cli/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "hone/error.h"

namespace hone::cli {
namespace {

// In a process of its own, as the streams are closed for good: 0 when all holds, else the number of the line that does
// not.
int use_closed_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) ::close(fd);
  hold_standard_streams();
  char byte = 'x';
  if (::open("/dev/zero", O_RDWR) <= STDERR_FILENO) return __LINE__;
  if (::read(STDIN_FILENO, &byte, 1) >= 0 || errno != EBADF) return __LINE__;
  if (::write(STDOUT_FILENO, &byte, 1) >= 0 || errno != EBADF) return __LINE__;
  if (::write(STDERR_FILENO, &byte, 1) >= 0 || errno != EBADF) return __LINE__;
  try {
    require_standard_input();
    return __LINE__;
  } catch (const Error&) {
    return 0;
  }
}

TEST(StandardStreams, ClosedOnesStayClosed) {
  EXPECT_EXIT(::_exit(use_closed_streams()), ::testing::ExitedWithCode(0), "");
}

TEST(StandardStreams, OpenOnesStayAsTheyAre) {
  const int before = ::dup(STDIN_FILENO);
  ::close(before);
  hold_standard_streams();
  const int after = ::dup(STDIN_FILENO);
  ::close(after);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace hone::cli
