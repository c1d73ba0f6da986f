// Temporary folders.
#include "base/temporary.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "hone/error.h"

namespace hone {

TemporaryFolder::TemporaryFolder() {
  std::error_code none;
  const std::filesystem::path where = std::filesystem::temp_directory_path(none);
  path_ = ((none ? std::filesystem::path("/tmp") : where) / "hone-XXXXXX").string();
  if (!mkdtemp(path_.data()))
    throw Error(ErrorKind::usage, fmt::format("{}: cannot make a temporary folder: {}", path_, std::strerror(errno)))
        .hint("TMPDIR names another place for it");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace hone
